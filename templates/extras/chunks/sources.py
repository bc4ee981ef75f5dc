"""The examples of a file that is larger than memory: checked once, then read chunk by chunk."""

import contextlib
import hashlib
import itertools
import json
import textwrap
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from core.base.errors import InputError
from core.base.files import parse_object
from core.data.records import SHOWN_KEYS, names_numbers, read_weighted
from extras.chunks.plan import Plan, read_note

Place = tuple[int, int]  # the bytes and the lines before a record


class Source(Sequence):
    """The examples of a file, like a list that reads each example when needed.

    Args:
        path: of the file; all records must be valid.
        read_one: makes an example from a record and its line.
        chunk: number of examples between two places.
        places: of the first record of each chunk.
        records: number of records.
    """

    def __init__(
        self,
        path: Path,
        read_one: Callable[[dict, int], Any],
        chunk: int,
        places: Sequence[Place],
        records: int,
    ) -> None:
        self.path, self.read_one = path, read_one
        self.chunk, self.places, self.records = chunk, places, records
        self.state = state_of(path)

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            position = range(self.records)[index]  # also negative; IndexError beyond
            return next(self.read(position, position + 1))
        start, stop, step = index.indices(self.records)
        return [*itertools.islice(self.read(start, stop), 0, None, step)]

    def __iter__(self) -> Iterator[Any]:
        return self.read(0, self.records)

    def read(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the examples between two positions.

        Raises:
            InputError: the file changed after it was opened.
        """
        if start >= stop:
            return
        number = start // self.chunk
        examples = (
            read_weighted(json.loads(text), line, self.read_one)
            for _, line, text in read_lines(self.path, self.places[number])
        )
        first = number * self.chunk
        yield from itertools.islice(examples, start - first, stop - first)
        if state_of(self.path) != self.state:
            raise InputError(f"{self.path} has changed while it was read: run the command again.")


def open_source(
    plan: Plan, fields: Collection[str], read_one: Callable[[dict, int], Any]
) -> Source | None:
    """Return the examples of the file to predict; None: one chunk, which core reads.

    All records are checked first, unless a process with the same key did it.

    Raises:
        InputError: a record is invalid, with core's message.
    """
    known = read_note(plan)
    if known and known["places"]:
        places = [(start, line) for start, line in known["places"]]
        return Source(plan.file, read_one, plan.chunk, places, known["records"])
    return check(plan.file, fields, read_one, plan.chunk)


def check(
    path: Path, fields: Collection[str], read_one: Callable[[dict, int], Any], chunk: int
) -> Source | None:
    """Read all records once; None: one chunk, or unusual line ends.

    Raises:
        InputError: a record is invalid, with core's message.
    """
    strange: dict[str, str] = {}
    places: list[Place] = []
    ids, known, before = array("Q"), set(fields), state_of(path)

    def make_object(place: str, pairs: list[tuple[str, Any]]) -> dict:
        keys = [] if names_numbers(pairs) else [key for key, _ in pairs]
        if len({*keys}) < len(keys) or not known.issuperset(keys):
            for key in keys:
                if key not in known or keys.count(key) > 1:
                    strange.setdefault(key, place)
        return dict(pairs)

    bar = {"unit": "record", "unit_scale": True, "leave": False, "disable": None}
    for place, line, text in tqdm(read_lines(path), f"check {path.name}", **bar):
        if "\r" in text[:-2]:
            return None
        record = parse_object(text, f"{path}, line {line}", make_object)
        with complaints_of(path, line):
            identity = read_weighted(record, line, read_one).id
        if len(ids) % chunk == 0:
            places.append(place)
        ids.append(short_hash(str(identity)))
    if len(ids) <= chunk:
        return None
    refuse_repeats(path, read_one, ids)
    warn_of_keys(path, fields, strange)
    source = Source(path, read_one, chunk, places, len(ids))
    if source.state != before:
        raise InputError(f"{path} has changed while it was read: run the command again.")
    return source


def refuse_repeats(path: Path, read_one: Callable[[dict, int], Any], ids: array) -> None:
    """Refuse two records with one id; `ids` are the hashes of all ids, eight bytes each.

    Raises:
        InputError: names both lines.
    """
    hashes, counts = np.unique(np.frombuffer(ids, np.uint64), return_counts=True)
    suspects = {*hashes[counts > 1].tolist()}
    lines: dict[str, int] = {}
    # Two ids may share a hash, so their texts decide.
    for _, line, text in read_lines(path) if suspects else ():
        identity = read_weighted(json.loads(text), line, read_one).id
        if short_hash(str(identity)) in suspects:
            with complaints_of(path, line):
                if (first := lines.setdefault(str(identity), line)) != line:
                    raise InputError(
                        f"id {identity!r} is on line {first} already: give each record an id "
                        "of its own."
                    )


@contextlib.contextmanager
def complaints_of(path: Path, line: int) -> Iterator[None]:
    """Prefix errors about a record with file and line, as core does."""
    try:
        yield
    except InputError as error:
        what = textwrap.shorten(str(error), 400, placeholder=" [...].")
        raise InputError(f"{path}, line {line}: {what}") from error


def warn_of_keys(path: Path, fields: Collection[str], strange: dict[str, str]) -> None:
    """Print unknown keys with the place of their first occurrence, as core does."""
    for key, place in list(strange.items())[:SHOWN_KEYS]:
        what = "occurs twice in one object" if key in fields else "is not read"
        print(f'warning: {place}: "{key[:40]}" {what}: the fields are {", ".join(fields)}')
    if len(strange) > SHOWN_KEYS:
        print(f"warning: {path}: the same holds for {len(strange) - SHOWN_KEYS} more keys")


def read_lines(path: Path, place: Place = (0, 0)) -> Iterator[tuple[Place, int, str]]:
    """Yield place, number and text of each non-empty line from a place on."""
    start, line = place
    with open(path, "rb") as file:
        file.seek(start)
        for data in file:
            place = start, line
            start, line = start + len(data), line + 1
            text = data.decode(errors="surrogateescape").removeprefix("\ufeff" * (line == 1))
            if text.strip():
                yield place, line, text


def state_of(path: Path) -> tuple[int, int, int]:
    """Return a value that changes with the file or its content."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ino


def short_hash(text: str) -> int:
    """Return a 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
