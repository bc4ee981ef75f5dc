"""The examples of a file that is no JSON Lines: one process reads it, and all encode them.

Where a record ends only its reader can tell, as in a table whose cells hold line breaks. So the
file is not cut before it is read: its examples are written one after the other, in files of rows of
the size that several processes share. They are used where the last one says that all are there.
"""

import contextlib
import itertools
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from core.base.errors import InputError
from extras.cache.processes import count_cores
from extras.cache.settings import Table
from extras.cache.sources import (
    BLOCK,
    MOST_BLOCKS,
    PICKLE,
    Block,
    Examples,
    Source,
    folder_of,
    forget_other_content,
    has_repeated_ids,
    recall,
    refuse_change,
    short_hash,
    size_of,
    state_of,
    survey,
)
from extras.cache.storage import (
    Damaged,
    NotInTheKey,
    Part,
    functions_in,
    key_of,
    locked,
    open_part,
    with_settings_read,
    write_part,
)


def open_stream(path: Path, stream: Callable[[], Iterator[Any]], table: Table) -> Examples | None:
    """Return the examples that a function yields of a file, read now or before.

    None: the caller is to read them, and to say what is wrong with one.

    Args:
        path: of the file.
        stream: can be pickled; all that it depends on, besides the file, is in its arguments.
    """
    folder = folder_of(path, table)
    with locked(folder / ".lock", path.name):
        before = state_of(path)
        content, _ = survey(path, folder)
        forget_other_content(folder, path, content)
        stream = with_settings_read(stream)
        key = key_of(stream, *(key_of(one) for one in functions_in(stream)))
        source = Source(path, folder, key, None, [], table.processes or count_cores(), table.beam)
        parts, made = open_whole(source.records), False
        if not parts:
            shutil.rmtree(source.records, ignore_errors=True)
            source.records.mkdir()
            try:
                progress = tqdm(stream(), f"check {path.name}", leave=False, disable=None)
                write_stream(source.records, progress, before.size)
            except InputError as error:
                shutil.rmtree(source.records, ignore_errors=True)
                if isinstance(error.__cause__, NotInTheKey):
                    raise
                return None  # the caller meets the same
            refuse_change(path, before, source.records)
            parts, made = open_whole(source.records), True
        examples = Examples(with_blocks(source, parts), parts)
        if not parts or recall(has_repeated_ids, examples):
            shutil.rmtree(source.records, ignore_errors=True)
            return None
        if made:
            print(f"cache: {len(examples)} records of {path} checked, {size_of(source.records)}")
    return examples


def write_stream(folder: Path, examples: Iterable, size: int) -> None:
    """Write examples as files of rows, each of so many bytes as one process encodes at once.

    Args:
        folder: empty.
        examples: in their order.
        size: of the file that they are read from, in bytes.
    """
    most = max(BLOCK, -(-size // MOST_BLOCKS))
    numbers = itertools.count()
    rows = ((pickle.dumps(one, PICKLE), (short_hash(str(one.id)),)) for one in examples)
    for first in rows:
        part = take(itertools.chain([first], rows), most)
        write_part(folder / f"{next(numbers):05}.rows", 1, part)
    # Each file is whole or absent; that all of them are there is known when the last one is.
    write_part(folder / "all.rows", 0, [], lambda: {"parts": next(numbers)})


def take(rows: Iterator[tuple[bytes, Any]], most: int) -> Iterator[tuple[bytes, Any]]:
    """Yield rows until they have so many bytes."""
    size = 0
    for row in rows:
        yield row
        size += len(row[0])
        if size >= most:
            return


def open_whole(folder: Path) -> list[Part]:
    """Return the files of rows of a stream; none, where one is absent or damaged."""
    with contextlib.suppress(Damaged):
        count = open_part(folder / "all.rows").facts["parts"]
        return [open_part(folder / f"{number:05}.rows") for number in range(count)]
    return []


def with_blocks(source: Source, parts: list[Part]) -> Source:
    """Return a source with the blocks that its files of rows stand for, by their bytes."""
    ends = np.cumsum([0, *(part.table for part in parts)]).tolist()
    source.blocks.extend(
        Block(number, start, end, 0) for number, (start, end) in enumerate(itertools.pairwise(ends))
    )
    return source
