"""The padded lengths of all chunks are those of the first one.

Each length is a graph that TensorFlow traces: chunks that chose their own would make new ones
without end. And answers depend on the padding in their last bits: so they depend on nothing that
differs between one process and several.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from core.data.data_generator import DataGenerator

# What is done to the batches of a chunk when they are made; none: they are left alone.
in_use: list[Callable[[DataGenerator], None]] = []


class Found(Exception):
    """The lengths are known: nothing needs to be predicted for that."""

    def __init__(self, lengths: list[int]) -> None:
        super().__init__(lengths)
        self.lengths = lengths


def find_lengths(describe: Callable[[Sequence], Sequence], examples: Sequence) -> list[int]:
    """Return the padded lengths that suit some examples; none: each chunk is to choose its own.

    `describe`, which would predict them, is ended as soon as they are encoded.
    """

    def stop(batches: DataGenerator) -> None:
        raise Found([int(length) for length in batches.boundaries])

    try:
        with applied(stop):
            describe(examples)
    except Found as found:
        return found.lengths
    return []


@contextlib.contextmanager
def padded_to(lengths: Sequence[int]) -> Iterator[None]:
    """Let batches be padded to some lengths, and to their own longest where that is longer.

    They are emptied at the end: TensorFlow never lets go of what a dataset was made from, so that
    the examples of every chunk would stay in memory.
    """
    made: list[DataGenerator] = []

    def pad(batches: DataGenerator) -> None:
        made.append(batches)
        longest = int(batches.lengths.max())
        beyond = [longest] if longest > lengths[-1] else []
        batches.boundaries = np.array([*lengths, *beyond])
        batches.bucket_of = np.searchsorted(batches.boundaries, batches.lengths)

    with applied(pad) if lengths else contextlib.nullcontext():
        yield
    for batches in made:
        vars(batches).clear()


@contextlib.contextmanager
def applied(change: Callable[[DataGenerator], None]) -> Iterator[None]:
    """Let a function be called with all batches that are made meanwhile."""
    in_use[:] = [change]
    try:
        yield
    finally:
        in_use.clear()
