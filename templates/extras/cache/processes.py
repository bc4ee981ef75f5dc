"""Calls of a function that several processes share.

Each process runs this file as its script. It reads pickles from its input until that ends (as it
does when the parent process is killed), and writes pickles to its output. TensorFlow is loaded only
if something needs it: no encoding does, and loading takes longer than encoding a small file.
Starting still takes a while, so idle processes wait a moment for more calls. A file needs several:
one to check it, one to collect its labels, one to encode it.
"""

import gc
import importlib.util
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, BinaryIO

from core.base.errors import InputError

LATER = ("tensorflow", "keras")
# Each process uses one core, and prints no progress bar: there would be one for each.
ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
SECONDS_WAITING = 10.0  # for another share


@dataclass
class Worker:
    """A process that serves calls, and what it can import: the same files as when it started."""

    process: subprocess.Popen
    path: list[str]
    began: float = field(default_factory=time.time)

    @property
    def fits(self) -> bool:
        """Whether it lives, and would import the code that this process has now."""
        own = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
        files = [file for file in own if file and not file.startswith(sys.prefix)]
        changes = [os.path.getmtime(file) for file in files if os.path.isfile(file)]
        same = self.path == sys.path and all(change < self.began for change in changes)
        return same and self.process.poll() is None


_waiting: list[Worker] = []
_timer: list[threading.Timer] = []
_lock = threading.Lock()


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
    free: queue.SimpleQueue = queue.SimpleQueue()
    workers = take_waiting(processes)
    try:
        workers += [start() for _ in range(processes - len(workers))]
        for worker in workers:
            tell(worker.process, (True, function))
            free.put(worker.process)
        with ThreadPoolExecutor(processes) as pool:
            calls = {pool.submit(call, free, argument): argument for argument in arguments}
            try:
                for done in as_completed(calls):
                    yield calls[done], done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end(workers)
                raise
    except BaseException:
        end(workers)
        raise
    let_wait(workers)


def take_waiting(most: int) -> list[Worker]:
    """Return processes that wait, so many at the most; others, and those of old code, are ended."""
    with _lock:
        waiting, _waiting[:] = [*_waiting], []
    fit = [worker for worker in waiting if worker.fits][:most]
    end([worker for worker in waiting if worker not in fit])
    return fit


def let_wait(workers: list[Worker]) -> None:
    """Let processes wait for another share; they are ended if there is none for a while."""
    with _lock:
        _waiting.extend(workers)
        for timer in _timer:
            timer.cancel()
        _timer[:] = [threading.Timer(SECONDS_WAITING, take_waiting, [0])]
        _timer[0].daemon = True
        _timer[0].start()


def start() -> Worker:
    """Start a process that waits for a function and for arguments of it."""
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,  # an interruption from the keyboard is for this process alone
    )
    tell(process, sys.path)
    return Worker(process, [*sys.path])


def tell(worker: subprocess.Popen, value: Any) -> None:
    """Send a value to a process.

    Raises:
        InputError: it has ended.
    """
    assert worker.stdin is not None
    try:
        pickle.dump(value, worker.stdin)
        worker.stdin.flush()
    except BrokenPipeError as lost:
        raise ended(worker) from lost


def ended(worker: subprocess.Popen) -> InputError:
    """Return the error of a process that has ended."""
    return InputError(
        f"a process that encodes has ended with {worker.wait()}, maybe for want of memory: set "
        "cache.processes lower and run the same command again, which goes on."
    )


def call(free: queue.SimpleQueue, argument: Any) -> Any:
    """Return what the next free process makes of an argument."""
    worker = free.get()
    try:
        tell(worker, (False, argument))
        result, error = pickle.load(worker.stdout)
    except (EOFError, pickle.UnpicklingError) as lost:
        raise ended(worker) from lost
    finally:
        free.put(worker)
    if error is not None:
        raise error
    return result


def end(workers: Sequence[Worker]) -> None:
    """End processes, whatever they do."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        with suppress(BrokenPipeError):  # of what it did not read
            worker.process.communicate()


# ------------------------------------------------------------------- in such a process


def work() -> None:
    """Read the path of modules, then functions and arguments of them."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is not an answer
    requests = sys.stdin.buffer
    sys.path[:] = pickle.load(requests)
    load_later()
    serve(requests, answers)


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


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each argument of the last function with the result, or with the exception."""
    function: Any = None
    while True:
        try:
            is_function, argument = pickle.load(requests)
        except EOFError:
            return
        if is_function:
            function = argument
            gc.freeze()
            continue
        answer: tuple[Any, Exception | None]
        try:
            answer = (function(argument), None)
        except Exception as error:
            answer = (None, error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    work()
