"""A part of this task that need not be read: how spans and links become events."""
