"""Calls of a function that the workers of Apache Beam share: on Dask or another runner.

They see the same disk as this process, and import the project: it is on their PYTHONPATH, and what
it requires is installed. They do not load TensorFlow.
"""

import base64
import functools
import importlib.util
import pickle
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from core.base.errors import InputError
from extras.cache.processes import load_later


class CarriedError(Exception):
    """An error of a worker as text, for runners pass on nothing else."""


def share_on_beam(
    function: Callable[[Any], Any], arguments: Sequence[Any], options: str
) -> list[tuple[Any, None]]:
    """Call a function with each argument, on any worker; return the arguments, each with None.

    Args:
        function: can be pickled, by the names of what it is made of; its results are not kept.
        arguments: can be pickled.
        options: of Beam, as on a command line.

    Raises:
        InputError: Beam is absent, or refuses the options.
        Exception: what the function has raised.
    """
    if importlib.util.find_spec("apache_beam") is None:
        raise InputError("Apache Beam is absent: pip install -r extras/cache/requirements.txt.")
    import apache_beam as beam

    try:
        pipeline = beam.Pipeline(argv=shlex.split(options))
    except ValueError as error:  # no such runner, or options that it refuses
        raise InputError(f"cache.beam: Apache Beam refuses {options!r}: {error}") from error
    try:
        with pipeline:
            (
                pipeline
                | beam.Create(list(arguments))
                # Otherwise a runner may keep all of them on the one machine that listed them.
                | beam.Reshuffle()
                | beam.Map(call_pickled, pickle.dumps(function))
            )
    except Exception as error:  # a runner's own, or the worker's with the runner's words around
        own = error_told_in(f"{type(error).__name__}: {error}")
        if own is None:
            raise
        raise own from error
    return [(argument, None) for argument in arguments]


def call_pickled(argument: Any, function: bytes) -> None:
    """Call a pickled function; raise its error as one word, since runners pass on only text."""
    if "tensorflow" not in sys.modules:
        load_later()
    try:
        unpickled(function)(argument)
    except Exception as error:
        told = base64.b64encode(pickle.dumps(error)).decode()
        raise CarriedError(told) from None


@functools.lru_cache(maxsize=1)
def unpickled(function: bytes) -> Callable[[Any], Any]:
    """Unpickle a function once, so that later calls reuse it with the words that it has learned."""
    return pickle.loads(function)


def error_told_in(text: str) -> Exception | None:
    """Return the error that a worker encoded in a runner's message; None: it encoded none."""
    told = re.search(r"CarriedError: ([\w+/=]+)", text)
    return pickle.loads(base64.b64decode(told[1])) if told else None
