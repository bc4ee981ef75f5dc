"""What check.py and the report of a run show: no training or score depends on it."""
