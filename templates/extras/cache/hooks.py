"""Examples, and what they are encoded to, come from files, where the table says so."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from core.batches import DataGenerator
from extras.cache.items import open_items
from extras.cache.settings import table_in_use
from extras.cache.sources import Examples, open_examples
from extras.cache.storage import inner, with_settings_read


def open_records(
    path: str | Path, fields: Collection[str], read_one: Callable[[dict, int], Any]
) -> Examples | None:
    """Return the examples of a file; None: core is to read it, or to say what is wrong with it."""
    table, path = table_in_use(), Path(path)
    if not table.enabled or not path.is_file():
        return None
    module = inner(read_one).__module__
    if module.startswith("extras."):
        print(f"cache: {path} is not kept: {module} reads it, and makes other records of these.")
        return None
    return open_examples(path, fields, with_settings_read(read_one), table)


def open_stream(path: str | Path, stream: Callable[[], Iterator[Any]]) -> Examples | None:
    """Return the examples that a function yields of a file; None: the caller is to read them."""
    table, path = table_in_use(), Path(path)
    if not table.enabled or not path.is_file():
        return None
    from extras.cache import streams

    return streams.open_stream(path, stream, table)


def open_batches(
    kind: type[DataGenerator], examples: Sequence, arguments: tuple
) -> DataGenerator | None:
    """Return the batches of examples that come from a file, encoded now or before."""
    if not isinstance(examples, Examples) or not kind.of_items:
        return None
    return open_items(kind, examples, arguments)
