"""One clear sentence instead of a traceback, for everything a participant can mend."""

import errno
import functools
import sys
from collections.abc import Callable


class InputError(Exception):
    """Something the participant can mend: the message says what, where and how."""


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Turn the errors that a participant can mend into one sentence and exit code 1.

    Args:
        main: the body of a script.

    Returns:
        The same function, which prints `error: ...` and exits instead of raising.
    """

    @functools.wraps(main)
    def run() -> None:
        sys.unraisablehook = leave_out_full_disk
        try:
            main()
        except InputError as error:
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            print("\ninterrupted: run the same command again to go on.", file=sys.stderr)
            sys.exit(130)
        except OSError as error:
            if "No space left" in str(error) or error.errno in (errno.ENOSPC, errno.EDQUOT):
                where = f" while writing {error.filename}" if error.filename else ""
                sys.exit(
                    f"error: the disk is full{where}: free some space and run the command again."
                )
            if error.filename is None:
                raise
            reason = (error.strerror or "unknown reason").lower()
            sys.exit(
                f"error: {error.filename} can't be read or written ({reason}): check the path and "
                "who may write there."
            )

    return run


def leave_out_full_disk(unraisable: "sys.UnraisableHookArgs") -> None:
    """Print what Python can't raise, but for a full disk: h5py repeats that as it lets go."""
    if "No space left" not in str(unraisable.exc_value):
        sys.__unraisablehook__(unraisable)
