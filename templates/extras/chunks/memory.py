"""What was encoded of a chunk is let go of when the chunk is predicted.

TensorFlow never lets go of what a dataset was made from, so that the examples of every chunk would
stay in memory.
"""

import contextlib
from collections.abc import Iterator

from core.batches import DataGenerator

# The batches that are made of the chunk in work; nothing: no chunk is.
of_chunk: list[list[DataGenerator]] = []


@contextlib.contextmanager
def emptied() -> Iterator[None]:
    """Empty the batches that are made meanwhile, at the end."""
    made: list[DataGenerator] = []
    of_chunk[:] = [made]
    try:
        yield
    finally:
        of_chunk.clear()
        for batches in made:
            vars(batches).clear()
