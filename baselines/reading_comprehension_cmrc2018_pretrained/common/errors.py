"""One clear sentence instead of a traceback, for everything a participant can mend."""

import errno
import functools
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import NoReturn


class InputError(Exception):
    """Something the participant can mend: the message says what, where and how."""


class EndedWell(Exception):
    """The process ends before it is done, and nothing is wrong: the message says why."""


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Turn the errors that a participant can mend into one sentence and exit code 1.

    Args:
        main: the body of a script.

    Returns:
        The same function, which prints `error: ...` and exits instead of raising.
    """

    @functools.wraps(main)
    def run() -> None:
        sys.excepthook = say_nothing_of_full_disk
        sys.unraisablehook = lambda args: say_nothing_of_full_disk(*args[:3])
        try:
            main()
            end_with_cluster()
        except InputError as error:
            leave(f"error: {error}")
        except EndedWell as end:
            end_with_cluster()
            print(end)
        except KeyboardInterrupt:
            print("\ninterrupted: run the same command again to go on.", file=sys.stderr)
            sys.exit(130)
        except Exception as error:
            sentence = explain_file_error(error) or explain_cluster_error(error)
            if sentence is None:
                raise
            leave(f"error: {sentence}")

    return run


def cluster_module() -> ModuleType | None:
    """Return common.cluster if it was imported: who has not is no worker, nor needs TensorFlow."""
    return sys.modules.get("common.cluster")


def end_with_cluster() -> None:
    """Wait for the other workers, if this process is one."""
    if cluster := cluster_module():
        cluster.part()


def explain_cluster_error(error: Exception) -> str | None:
    """Return what to do about a worker that is gone; None: the error is about something else."""
    cluster = cluster_module()
    return cluster and cluster.explain_lost_worker(error)


def leave(sentence: str) -> NoReturn:
    """End this process with a sentence and exit code 1."""
    if cluster := cluster_module():
        cluster.leave(sentence)
    sys.exit(sentence)


def explain_file_error(error: Exception) -> str | None:
    """Return what is wrong with the disk or a path; None: the error is about neither."""
    name = getattr(error, "filename", None)
    # TensorFlow and HDF5 have their own exceptions for a full disk.
    full = "No space left" in str(error) or getattr(error, "errno", None) == errno.EDQUOT
    if full:
        where = f" while writing {name}" if name else ""
        return f"the disk is full{where}: free some space and run the command again."
    if name is None or not isinstance(error, OSError):
        return None
    reason = (error.strerror or "unknown reason").lower()
    return (
        f"{name} can't be read or written ({reason}): check the path and who may read and write "
        "there."
    )


def say_nothing_of_full_disk(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    """Print an error, but for h5py's of a full disk, which it prints as well as raises."""
    if "No space left" not in str(error):
        sys.__excepthook__(kind, error, trace)
