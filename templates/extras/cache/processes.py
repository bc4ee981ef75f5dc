"""Calls of a function that several processes share."""

import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from core.base.errors import InputError

WORKER = Path(__file__).with_name("worker.py")
# Each process has one core. Bars of progress would be one for each.
ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share(
    function: Callable[[Any], Any], arguments: Sequence[Any], processes: int
) -> Iterator[tuple[Any, Any]]:
    """Yield arguments with their results, in the order in which they come.

    Args:
        function: can be pickled.
        arguments: of each call.
        processes: how many share the calls; 1: this one makes them.

    Raises:
        InputError: a process was ended, as for want of memory.
    """
    processes = min(processes, len(arguments))
    if processes <= 1:
        for argument in arguments:
            yield argument, function(argument)
        return
    workers: list[subprocess.Popen] = []
    free: queue.SimpleQueue = queue.SimpleQueue()
    try:
        for _ in range(processes):
            workers.append(start(function))
            free.put(workers[-1])
        with ThreadPoolExecutor(processes) as pool:
            calls = {pool.submit(call, free, argument): argument for argument in arguments}
            try:
                for done in as_completed(calls):
                    yield calls[done], done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end(workers)
                raise
    finally:
        end(workers)


def start(function: Callable) -> subprocess.Popen:
    """Start a process that waits for arguments of a function."""
    worker = subprocess.Popen(
        [sys.executable, str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,  # an interruption from the keyboard is for this process alone
    )
    tell(worker, sys.path)
    tell(worker, function)
    return worker


def tell(worker: subprocess.Popen, value: Any) -> None:
    """Send a value to a process."""
    assert worker.stdin is not None
    pickle.dump(value, worker.stdin)
    worker.stdin.flush()


def call(free: queue.SimpleQueue, argument: Any) -> Any:
    """Return what the next free process makes of an argument."""
    worker = free.get()
    try:
        tell(worker, argument)
        result, error = pickle.load(worker.stdout)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError) as lost:
        raise InputError(
            f"a process that encodes has ended with {worker.wait()}, maybe for want of memory: set "
            "cache.processes lower and run the same command again, which goes on."
        ) from lost
    finally:
        free.put(worker)
    if error is not None:
        raise error
    return result


def end(workers: Sequence[subprocess.Popen]) -> None:
    """End processes, whatever they do."""
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.communicate()
