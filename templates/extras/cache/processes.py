"""Calls of a function that several processes share.

Each of them is started with this file as its script. It reads pickles from its input until that
ends, as it does when the process that started it is killed, and writes pickles to its output.
TensorFlow is not loaded unless something needs it: no encoding does, and that takes longer than to
encode a small file.
"""

import gc
import importlib.util
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import ModuleType
from typing import Any, BinaryIO

from core.base.errors import InputError

LATER = ("tensorflow", "keras")
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
        gc.freeze()  # or each full collection would look at all that TensorFlow has made
        try:
            for argument in arguments:
                yield argument, function(argument)
        finally:
            gc.unfreeze()
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
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
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


# ------------------------------------------------------------------- in such a process


def work() -> None:
    """Read the path of modules and the function, then one argument after the other."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is not an answer
    requests = sys.stdin.buffer
    sys.path[:] = pickle.load(requests)
    load_later()
    function = pickle.load(requests)
    gc.freeze()
    serve(function, requests, answers)


class Later(ModuleType):
    """A module that is loaded when something of it is asked for, and not by its import."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which an import asks for
            raise AttributeError(name)
        for late in LATER:  # all of them, for Keras looks for parts of TensorFlow
            if isinstance(sys.modules[late], Later):
                del sys.modules[late]
        spec = importlib.util.find_spec(self.__name__)
        assert spec and spec.loader
        sys.modules[self.__name__] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)


def load_later() -> None:
    """Let the modules of `LATER` be loaded when something needs them."""
    sys.modules.update({name: Later(name) for name in LATER})


def serve(function: Any, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each argument with the result, or with the exception."""
    while True:
        try:
            argument = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = (function(argument), None)
        except Exception as error:
            answer = (None, error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    work()
