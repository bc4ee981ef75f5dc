"""Data sets: where they come from, how they are fetched, and how they become JSON Lines."""
