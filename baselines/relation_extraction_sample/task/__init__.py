"""Relation extraction: which spans of a text are related, and how."""
