"""How spans and links become events."""
