"""Free the encoded examples of a chunk after its prediction.

TensorFlow never releases the source of a dataset, so the examples of every chunk would stay in
memory.
"""

import contextlib
from collections.abc import Iterator

from core.batches import DataGenerator

# The batches of the current chunk; empty: no chunk.
of_chunk: list[list[DataGenerator]] = []


@contextlib.contextmanager
def emptied() -> Iterator[None]:
    """At the end, empty the batches that were made inside the block."""
    made: list[DataGenerator] = []
    of_chunk[:] = [made]
    try:
        yield
    finally:
        of_chunk.clear()
        for batches in made:
            vars(batches).clear()
