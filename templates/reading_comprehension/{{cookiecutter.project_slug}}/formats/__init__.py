"""Formats of the files that predictions are written to."""
