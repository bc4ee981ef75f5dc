"""Formats of files with entities: CoNLL columns, submissions, predictions."""
