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
        try:
            main()
        except InputError as error:
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            print("\ninterrupted: run the same command again to go on.", file=sys.stderr)
            sys.exit(130)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            where = f" while writing {error.filename}" if error.filename else ""
            sys.exit(f"error: the disk is full{where}: free some space and run the command again.")

    return run
