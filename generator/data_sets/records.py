"""What the converters make: records with ids and spans, and remarks on what is not as it was."""

import csv
import hashlib
import io
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generator.data_sets.source_files import SourceError, named, read_text, shown

Records = dict[str | int, dict]
Span = tuple[int, int]
# An offset that is wrong by no more than this many characters was counted in another way.
NEAR = 5
REPEATED = 'repeated ids, of which each record but the first got "-2", "-3", ... at its end'
ALIGNED = "offsets corrected to the nearest place where the text reads as it should"


class Everything(Container[str | int]):
    """The ids of a file of which every record is wanted."""

    def __contains__(self, name: object) -> bool:
        return True


@dataclass
class Conversion:
    """What a converter is asked for, and what it has to say.

    Attributes:
        wanted: the ids of the records that are converted.
        pinned: the data set stays as it was scored: no offset is corrected.
        remarks: what was left out, merged or read otherwise -> how often, and the first place.
    """

    wanted: Container[str | int] = field(default_factory=Everything)
    pinned: bool = False
    remarks: dict[str, tuple[int, str]] = field(default_factory=dict)

    def remark(self, what: str, where: str, count: int = 1) -> None:
        """Count what was left out, merged or read otherwise at a place."""
        if count:
            before, first = self.remarks.get(what, (0, where))
            self.remarks[what] = (before + count, first)

    def sentences(self) -> list[str]:
        """Return one sentence for each kind of remark."""
        return [
            f"{what}: {count}, the first in {where}."
            for what, (count, where) in self.remarks.items()
        ]

    def distinct(self, items: Iterable[Any], what: str, where: str) -> set:
        """Return items as a set; count those that repeat another."""
        listed = list(items)
        found = set(listed)
        repeated = f"{what} that repeat another of their record, kept once"
        self.remark(repeated, where, len(listed) - len(found))
        return found


def read_table(path: Path, conversion: Conversion) -> Iterator[tuple[str, list[str]]]:
    """Yield `(place, cells)` of each row of a CSV file, the header first; empty rows are left out.

    Args:
        path: the file.
        conversion: counts the cells of several lines, which one wrong quote can make of rows.

    Raises:
        SourceError: it is not CSV.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    before = 0
    try:
        for cells in reader:
            where = f"{path}, line {before + 1}"
            before = reader.line_num
            what = "cells of several lines, read as one text"
            conversion.remark(what, where, sum("\n" in cell for cell in cells))
            if cells:
                yield where, cells
    except csv.Error as error:
        raise SourceError(f"{path}, line {before + 1}: not CSV ({error})") from error


# -------------------------------------------------------------------------- spans


def find_span(
    text: str, start: int, words: str, name: str, where: str, conversion: Conversion, end: int = -1
) -> Span:
    """Return the span of words whose offset a file gives.

    Args:
        text: the text that holds them.
        start: where they should begin.
        words: the text there.
        name: what they are, for the error.
        where: the place in the file, for the error and the remark.
        conversion: may correct offsets, and counts them.
        end: where they should end, if the file says so.

    Raises:
        SourceError: the text reads otherwise, and does not hold the words near by or once.
    """
    wanted = end if end >= 0 else start + len(words)
    if words and 0 <= start and text.startswith(words, start) and wanted == start + len(words):
        return start, wanted
    place = None if conversion.pinned else nearest_place(text, words, start)
    if place is None:
        raise SourceError(f"{where}: {name} is not the text at [{start}, {wanted})")
    conversion.remark(ALIGNED, where)
    return place, place + len(words)


def nearest_place(text: str, words: str, start: int) -> int | None:
    """Return where words begin that an offset misses; None: it is unknown.

    That is the nearest place within a few characters of the offset, or the only place.
    """
    places = occurrences(text, words)
    if len(places) < 2:
        return places[0] if places else None
    first, second = sorted(places, key=lambda place: abs(place - start))[:2]
    near, tie = abs(first - start) <= NEAR, abs(first - start) == abs(second - start)
    return first if near and not tie else None


def occurrences(text: str, words: str) -> list[int]:
    """Return every place where words begin, overlapping ones too; empty words stand nowhere."""
    places = []
    place = text.find(words) if words else -1
    while place >= 0:
        places.append(place)
        place = text.find(words, place + 1)
    return places


# ---------------------------------------------------------------------------- ids


def read_id(holder: dict, name: str, where: str) -> str | int:
    """Return an id, a string or a whole number, also one that is written as 7.0.

    Raises:
        SourceError: it is missing or something else.
    """
    if name not in holder:
        raise SourceError(f"{where}: the field {name!r} is missing")
    value = holder[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise SourceError(f"{where}: the id {shown(value)} is no string and no whole number")
    return value


def text_id(*texts: str) -> str:
    """Return the id of a record whose file has none: its texts name it.

    It is the beginning of the SHA-1 of the texts, separated by tabs, in UTF-8.
    """
    content = "\t".join(texts).encode("utf-8")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()[:12]


def with_distinct_ids(found: Sequence[tuple[str, dict]], conversion: Conversion) -> Iterator[dict]:
    """Yield the records; one whose id came before gets another, so that none is lost.

    Args:
        found: `(place, record)` of each, in the order of the file.
        conversion: counts them.
    """
    # Ids are compared as they are written: 7 and "7" would be one.
    taken = {str(record["id"]) for _, record in found}
    seen: set[str] = set()
    counts: dict[str, int] = {}
    for where, record in found:
        name = str(record["id"])
        if name in seen:
            conversion.remark(REPEATED, where)
            count = counts.get(name, 1) + 1
            while f"{name}-{count}" in taken:
                count += 1
            counts[name] = count
            taken.add(f"{name}-{count}")
            record = {**record, "id": f"{name}-{count}"}
        seen.add(str(record["id"]))
        yield record


# ------------------------------------------------------------------- pinned splits


def pool(found: Iterable[tuple[str, dict]], conversion: Conversion) -> Records:
    """Return records by id; one that comes twice must be the same, and counts once.

    Raises:
        SourceError: it is another one.
    """
    records: Records = {}
    for where, record in found:
        if record["id"] in records:
            if records[record["id"]] != record:
                raise SourceError(f"{where}: record {named(record['id'])} comes twice and differs")
            conversion.remark("records that come twice, kept once", where)
        records[record["id"]] = record
    return records


def pick_splits(
    records: Records, splits: dict[str, list[str]], files: list[Path]
) -> dict[str, list[dict]]:
    """Return for each split its records in the pinned order.

    Args:
        records: what was read, by id; records that are not pinned are left out.
        splits: the pinned ids of each split.
        files: those that were read, for the error.

    Raises:
        SourceError: a pinned record is missing.
    """
    where = " and ".join(str(path) for path in files)
    for split, ids in splits.items():
        missing = [name for name in ids if name not in records]
        if missing:
            raise SourceError(
                f"{where}: record {missing[0]} of the {split} split is missing"
                f" ({len(missing)} of {len(ids)} are)"
            )
    return {split: [records[name] for name in ids] for split, ids in splits.items()}
