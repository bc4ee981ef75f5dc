"""Records with ids and spans, made of files of hosts; remarks on what is not as it was there."""

import csv
import hashlib
import io
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extras.host_formats.source_files import SourceError, read_text, shown

Span = tuple[int, int]
# Subject, predicate, object.
Triple = tuple[int, int, str, int, int]
# An argument is its span and its role.
Argument = tuple[int, int, str]
# An empty trigger means no trigger.
Event = tuple[Span | tuple[()], str, tuple[Argument, ...]]
# An offset that is wrong by no more than this many characters was counted in another way.
NEAR = 5
# Characters of a cell of a table of short texts: one quote that nothing closes makes a longer one.
LONGEST_CELL = 131_072
REPEATED = 'repeated ids, of which each record but the first got "-2", "-3", ... at its end'
ENDS = "entities whose last offset is not that of their words: the words count"
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


def read_table(
    path: Path, conversion: Conversion, delimiter: str = ",", longest: int = LONGEST_CELL
) -> Iterator[tuple[str, list[str]]]:
    """Yield `(place, cells)` of each row of a CSV file, the header first; empty rows are left out.

    Args:
        path: the file.
        conversion: counts the cells of several lines, which one wrong quote can make of rows.
        delimiter: between cells.
        longest: characters that a cell may have.

    Raises:
        SourceError: it is not CSV.
    """
    rows = io.StringIO(read_text(path), newline="")
    reader = csv.reader(rows, strict=True, delimiter=delimiter)
    before, limit = 0, csv.field_size_limit(longest)
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
    finally:
        csv.field_size_limit(limit)


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


def find_words(text: str, words: str, where: str, conversion: Conversion) -> list[int]:
    """Return every place where words are in a text; of any case if none has their own."""
    places = occurrences(text, words)
    if not places and words:
        # A look-ahead, because occurrences may overlap; one character matches one character.
        wanted = f"(?={re.escape(words)})"
        places = [match.start() for match in re.finditer(wanted, text, re.IGNORECASE)]
        if places:
            conversion.remark("words found in the text in another case", where)
    return places


def place_words(
    text: str,
    words: str,
    start: int | None,
    name: str,
    where: str,
    conversion: Conversion,
    near: Span | None = None,
) -> Span | None:
    """Return the span of words, with or without an offset; None: it can't be found.

    Without an offset it is the occurrence nearest to `near`, or the first one. What is not found,
    and what was chosen among several, is counted.

    Args:
        text: should hold the words.
        words: the text of a mention.
        start: where the file says that they begin; None: it doesn't say it.
        name: what such mentions are, in the plural.
        where: the place in the file.
        conversion: counts.
        near: a span of the same event.
    """
    if start is not None and 0 <= start and words and text.startswith(words, start):
        return start, start + len(words)
    place: int | None = None
    if start is not None and start >= 0:
        place = nearest_place(text, words, start)
        if place is not None:
            conversion.remark(ALIGNED, where)
    elif places := find_words(text, words, where, conversion):
        place = places[0]
        if near:
            begin, end = near
            place = min(places, key=lambda at: max(at - end, begin - at - len(words), 0))
        if len(places) > 1:
            which = "the one nearest to the trigger" if near else "the first one"
            conversion.remark(f"{name} that occur more than once: {which} was taken", where)
    if place is None:
        conversion.remark(f"{name} whose words are not in the text there, left out", where)
        return None
    return place, place + len(words)


def locate_pair(
    heads: list[Span], tails: list[Span], what: str, where: str, conversion: Conversion
) -> tuple[Span, Span]:
    """Choose one occurrence of each of two names: the first ones that do not overlap.

    One name is often a part of the other. If every pair of occurrences overlaps, the first ones are
    taken.

    Args:
        heads: the occurrences of one name, at least one; `tails`: of the other.
        what: the pairs in words, for the remark.
        where: the place in the file.
        conversion: counts the pairs with more than one occurrence.
    """
    if len(heads) > 1 or len(tails) > 1:
        conversion.remark(f"{what}: the first ones that do not overlap were taken", where)
    apart = (
        (head, tail) for head in heads for tail in tails if head[1] <= tail[0] or tail[1] <= head[0]
    )
    return next(apart, (heads[0], tails[0]))


# ------------------------------------------------------------------------- answers


def triple_records(triples: list[Triple], where: str, conversion: Conversion) -> list[dict]:
    """Return the triples as JSON objects, sorted, so that the order of a source plays no part."""
    return [
        {"subject": [start, end], "predicate": predicate, "object": [object_start, object_end]}
        for start, end, predicate, object_start, object_end in sorted(
            conversion.distinct(triples, "triples", where)
        )
    ]


def event_records(events: set[Event]) -> list[dict]:
    """Return the events as JSON objects, sorted by trigger, type and arguments."""
    return [
        {
            "type": kind,
            "trigger": list(trigger) or None,
            "arguments": [{"role": role, "span": [start, end]} for start, end, role in arguments],
        }
        for trigger, kind, arguments in sorted(events)
    ]


def entity_records(
    entities: Iterable[tuple[int, int, str]], where: str, conversion: Conversion
) -> list[dict]:
    """Return entities `(start, end, type)` as JSON objects, sorted, each once."""
    return [
        {"type": kind, "span": [start, end]}
        for start, end, kind in sorted(conversion.distinct(entities, "entities", where))
    ]


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
    # Half of a character has an id too: `check_characters` then says where it is.
    content = "\t".join(texts).encode("utf-8", "surrogatepass")
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
