"""One clear sentence instead of a traceback, for every error that the user can fix."""

import contextlib
import errno
import functools
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from core.base.workers import all_workers

FULL = "the disk is full"


class InputError(Exception):
    """An error that the user can fix: the message says what, where and how."""


class EndedWell(Exception):
    """The process ends early and nothing is wrong: the message says why."""

    code = 0


class ToldToEnd(EndedWell):
    """The process was told to end and has saved its state: its exit code says it is not done."""

    code = 143  # as after SIGTERM


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Return a main function that prints `error: ...` and exits with 1 instead of raising."""

    @functools.wraps(main)
    def run() -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # perhaps of ASCII or a Windows code page
                stream.reconfigure(errors="backslashreplace")
        sys.unraisablehook = functools.partial(tell_unless_full, sys.unraisablehook)
        sys.excepthook = functools.partial(tell_unless_full, sys.excepthook)
        try:
            main()
            all_workers().close()
            print(end="", flush=True)
        except InputError as error:
            all_workers().leave(f"error: {error}")
        except EndedWell as end:
            all_workers().close()
            print(end)
            if end.code:
                sys.exit(end.code)
        except KeyboardInterrupt:
            print("\ninterrupted: run the same command again to go on.", file=sys.stderr)
            sys.exit(130)
        except Exception as error:
            if isinstance(error, BrokenPipeError) and output_is_closed():
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                all_workers().leave(
                    "error: the output is closed: did the next program, such as `head`, end early?"
                )
            sentence = explain_file_error(error) or explain_device_error(error)
            sentence = sentence or all_workers().explain(error)
            if sentence is None:
                raise
            if FULL in sentence:
                leave_at_once(f"error: {sentence}")
            all_workers().leave(f"error: {sentence}")

    return run


def output_is_closed() -> bool:
    """Tell whether whoever read the output has ended; on Windows that is never known."""
    if not hasattr(select, "poll"):
        return False
    with contextlib.suppress(OSError, ValueError, AttributeError):  # no output, or a file
        asked = select.poll()
        asked.register(1, 0)
        return any(event & select.POLLERR for _, event in asked.poll(0))
    return False


def explain_device_error(error: Exception) -> str | None:
    """Return what to do if the memory of a device is full, or XLA can't compile a layer."""
    text = str(error)
    if type(error).__name__ == "ResourceExhaustedError" or "CUDA_ERROR_OUT_OF_MEMORY" in text:
        return (
            "the memory of the device is full: set accumulation = 2 (or 4, 8: each step needs half "
            "of the memory for activations, a quarter, an eighth, with the same result), leave "
            "devices.precision = auto (half of it on most GPUs), set recompute.enabled = true with "
            "extras/recompute (a third or less), or lower max_length; for prediction, lower "
            "prediction_batch_size in config.toml."
        )
    if "XLA" in text and type(error).__module__.startswith("tensorflow"):
        return (
            f"XLA can't compile a layer of this model ({gist(error)}): set devices.xla = false, or "
            "use masks and operations of fixed shapes in that layer."
        )
    return None


def explain_file_error(error: Exception) -> str | None:
    """Return a sentence about a full disk or a bad path; None: the error is another one."""
    name = getattr(error, "filename", None)
    # TensorFlow and HDF5 raise their own exceptions for a full disk.
    if "No space left" in str(error) or getattr(error, "errno", None) == errno.EDQUOT:
        where = f" while writing {name}" if name else ""
        return f"{FULL}{where}: free some space and run the command again."
    if name is None or not isinstance(error, OSError):
        return None
    reason = (error.strerror or "unknown reason").lower()
    return (
        f"{name} can't be read or written ({reason}): check the path and who may read and write "
        "there."
    )


def leave_at_once(sentence: str) -> NoReturn:
    """End at once: HDF5 crashes when it closes a file that a full disk cut off."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    print(sentence, file=sys.stderr, flush=True)
    os._exit(1)


def tell_unless_full(tell: Callable, *what: Any) -> None:
    """Print an error that nothing can catch, unless it is about a full disk.

    HDF5 fails again when it closes a file that did not fit; `command` prints what to do about it.
    `tell` is `sys.excepthook`, which Cython calls too, or `sys.unraisablehook`.
    """
    value = what[1] if len(what) > 1 else what[0].exc_value
    if "No space left" not in str(value):
        tell(*what)


def gist(error: Exception) -> str:
    """Return the first sentence of an error raised by a library."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".")
