"""How many bytes a function makes Python hold at most."""

import gc
import multiprocessing
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_memory(function: Callable[[], Any]) -> int:
    """Return the most bytes that Python holds while it calls a function and has its result.

    The function runs in a fork, so that no other thread of the tests adds to it, and no object of
    an earlier test that is collected meanwhile. What it changes is lost but for files.
    """
    if sys.platform == "win32":
        return traced(function)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def measure() -> None:
        gc.freeze()
        results.put(traced(function))

    process = context.Process(target=measure)
    process.start()
    process.join()
    assert process.exitcode == 0, "see the traceback that the fork has printed"
    return results.get()


def traced(function: Callable[[], Any]) -> int:
    """Return the most bytes that Python holds of what a function makes, with its result."""
    tracemalloc.start()
    try:
        _made = function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
