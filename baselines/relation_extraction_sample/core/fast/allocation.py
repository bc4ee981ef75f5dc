"""Keep freed memory in the process, so that training on a CPU does not wait for the system."""

import ctypes

# Options of glibc's mallopt(3) and their values: freed blocks stay in the process, and all threads
# share one heap, because the heap of a thread ends at 64 MB.
MALLOC_OPTIONS = {-1: 2**31 - 1, -3: 2**31 - 1, -8: 1}  # trim, mmap thresholds in bytes; arenas


def keep_freed_memory() -> None:
    """Reuse the memory that a step frees in the next step, if the C library is glibc.

    By default glibc returns large arrays to the system, which clears them and hands them out again
    page by page. That takes a fifth of the time of a training on a CPU.
    """
    if mallopt := getattr(ctypes.pythonapi, "mallopt", None):
        for option, value in MALLOC_OPTIONS.items():
            mallopt(option, value)
