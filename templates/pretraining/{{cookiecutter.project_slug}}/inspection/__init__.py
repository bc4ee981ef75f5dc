"""What check.py, compare.py and the report of a run show: no training or score depends on it."""
