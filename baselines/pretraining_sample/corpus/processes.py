"""Call a function in several processes; what one of them has begun is left whole or not at all."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from multiprocessing.synchronize import Event
from typing import NoReturn

from core.base.errors import InputError

# In a worker: set when it shall leave its work as it is.
stop_event: list[Event] = []


class Stopped(Exception):
    """The work was left as it is, because the main process ends."""


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_when_told() -> None:
    """Let SIGTERM, which a queue sends before it kills, end this process as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def run_in_processes(function: Callable, jobs: list[tuple], processes: int) -> Generator[tuple]:
    """Yield `(job, function(*job))` for all jobs, in any order.

    Args:
        function: of a module; should call `go_on` often.
        jobs: the arguments of each call.
        processes: 1: all is done in this one.

    Raises:
        InputError: a process was killed.
    """
    if processes == 1:
        for job in jobs:
            yield job, function(*job)
        return
    # A fork of a process in which tokenizers has started threads may wait for them for ever.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    executor = ProcessPoolExecutor(processes, context, begin_worker, (stop,))
    try:
        futures = {executor.submit(function, *job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise InputError(
            "a process was killed, most likely because memory ran out: lower processes or "
            "block_megabytes and run the same command again; what is finished is kept."
        ) from error
    finally:
        stop.set()
        executor.shutdown(cancel_futures=True)


def begin_worker(stop: Event) -> None:
    """Prepare a worker: it ends with the main process, and leaves Ctrl-C to it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are as many processes as cores
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_event.append(stop)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this process when the main one was killed: it would wait for work for ever."""
    main = multiprocessing.parent_process()
    assert main is not None, "only the processes of run_in_processes wait"
    wait([main.sentinel])
    os._exit(1)


def go_on() -> None:
    """Return at once, unless the main process wants to end.

    Raises:
        Stopped: it does.
    """
    if stop_event and stop_event[0].is_set():
        raise Stopped
