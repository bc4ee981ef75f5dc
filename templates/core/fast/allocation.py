"""Keep freed memory in the process: training on a CPU then loses no time to the system."""

import ctypes

# Options of glibc's mallopt(3) and their values: no block goes back to the system while another may
# be asked for, and threads share one heap, for those of threads end at 64 MB.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**31 - 1, -8: 1}  # trim, mmap thresholds in bytes; arenas


def keep_freed_memory() -> None:
    """Let the memory that a step frees serve the next one, where the C library is glibc.

    By default it returns large arrays to the system, which hands them out again page by page and
    cleared: a fifth of the time of a training on processors.
    """
    if mallopt := getattr(ctypes.pythonapi, "mallopt", None):
        for option, value in MALLOC_OPTIONS.items():
            mallopt(option, value)
