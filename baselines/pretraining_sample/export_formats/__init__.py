"""What other projects and libraries read: an encoder in the format of Hugging Face, or a preset."""
