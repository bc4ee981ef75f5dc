"""What files look like that hold entities: CoNLL columns."""
