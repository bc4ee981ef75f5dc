"""Pre-training: an encoder learns a language from plain text."""
