"""Parts of this task that need not be read: thresholds of single types, partial overlap."""
