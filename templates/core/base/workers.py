"""The workers of one training: who this process is, and what it tells the others.

Most trainings have one process, which stands alone. The extra `cluster` puts its own workers in
this place when it joins several machines; whoever asks here does not notice the difference.
"""

import sys
from typing import Any, NoReturn


class Alone:
    """One process, which trains without others; the cluster's workers replace all of this.

    Attributes:
        count: how many processes train together.
        number: which of them this one is, from 0; the first, the chief, alone writes.
    """

    count = 1
    number = 0

    def gather(self, value: Any) -> list:
        """Return the values of all workers, the chief's first; all must call this together."""
        return [value]

    def close(self) -> None:
        """Wait until all workers have come to their end."""

    def explain(self, error: Exception) -> str | None:
        """Return what to do about a lost worker; None: the error is about something else."""
        return None

    def leave(self, sentence: str) -> NoReturn:
        """End this process with a sentence and exit code 1."""
        sys.exit(sentence)


# A process belongs to one training for all its life, as TensorFlow's own cluster does.
_workers = Alone()


def join_workers(workers: Alone) -> None:
    """Let this process be one of several from now on."""
    global _workers
    _workers = workers


def all_workers() -> Alone:
    """Return the workers that this process belongs to."""
    return _workers


def worker_count() -> int:
    """Return the number of workers; 1: this process stands alone."""
    return _workers.count


def worker_number() -> int:
    """Return which worker this process is, from 0."""
    return _workers.number


def is_chief() -> bool:
    """Tell whether this is the worker that writes."""
    return worker_number() == 0


def gather(value: Any) -> list:
    """Return the values of all workers, which can be pickled; all must call this together."""
    return _workers.gather(value)


def broadcast(value: Any) -> Any:
    """Return the chief's value on all workers; all must call this together."""
    return gather(value if is_chief() else None)[0]


def wait_for_workers() -> None:
    """Wait until all workers have come to their end: none may leave while others still talk."""
    _workers.close()
