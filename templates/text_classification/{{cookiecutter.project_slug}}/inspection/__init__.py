"""What check.py, compare.py and the report show: no training or score depends on it."""
