"""The workers of one training: the number of this process, and messages among all of them.

Most trainings have a single process. The extra `cluster` replaces it by its own workers when it
joins several machines; callers need not know.
"""

import sys
from typing import Any, NoReturn


class OneProcess:
    """A single process; the workers of a cluster override all of this.

    Attributes:
        count: number of processes that train together.
        number: number of this process, from 0; only the first, the chief, writes files.
    """

    count = 1
    number = 0

    def gather(self, value: Any) -> list:
        """Return the picklable values of all workers, in order; all must call this together."""
        return [value]

    def close(self) -> None:
        """Wait until all workers have ended: none may leave while others still need it."""

    def explain(self, error: Exception) -> str | None:
        """Return what to do about a lost worker; None: the error is another one."""
        return None

    def leave(self, sentence: str) -> NoReturn:
        """End this process with a message and exit code 1."""
        sys.exit(sentence)


# A process belongs to one training until it ends, as in TensorFlow's own cluster.
_workers = OneProcess()


def join_workers(workers: OneProcess) -> None:
    """Make this process one of several from now on."""
    global _workers
    _workers = workers


def all_workers() -> OneProcess:
    """Return the workers that this process belongs to."""
    return _workers


def is_chief() -> bool:
    """Return whether this is the worker that writes files."""
    return _workers.number == 0


def broadcast(value: Any) -> Any:
    """Return the chief's picklable value on all workers; all workers must call this together."""
    return _workers.gather(value if is_chief() else None)[0]
