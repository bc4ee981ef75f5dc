"""One clear sentence instead of a traceback, for everything a participant can mend."""

import errno
import functools
import sys
from collections.abc import Callable
from types import TracebackType

from core.base.workers import all_workers, wait_for_workers


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
        sys.unraisablehook = lambda found: say_nothing_of_full_disk(
            found.exc_type, found.exc_value, found.exc_traceback
        )
        try:
            main()
            wait_for_workers()
        except InputError as error:
            all_workers().leave(f"error: {error}")
        except EndedWell as end:
            wait_for_workers()
            print(end)
        except KeyboardInterrupt:
            print("\ninterrupted: run the same command again to go on.", file=sys.stderr)
            sys.exit(130)
        except Exception as error:
            sentence = explain_file_error(error) or all_workers().explain(error)
            if sentence is None:
                raise
            all_workers().leave(f"error: {sentence}")

    return run


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


def say_nothing_of_full_disk(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    """Print an error, but for h5py's of a full disk, which it prints as well as raises."""
    if error is not None and "No space left" not in str(error):
        sys.__excepthook__(kind, error, trace)


def gist(error: Exception) -> str:
    """Return the first sentence of somebody else's error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".")
