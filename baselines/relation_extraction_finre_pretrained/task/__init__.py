"""Relation extraction: who stands in which relation to whom, as spans of a text."""
