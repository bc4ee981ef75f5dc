"""What this task computes that need not be read to change its model."""
