"""Small data sets written by us: one module a task, each with `write_sample(folder)`."""
