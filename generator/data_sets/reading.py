"""Shared by the converters: files, clear errors, spans, pinned splits, one fixed order."""

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from generator import InputError

Records = dict[str, dict]
Span = tuple[int, int]


# ------------------------------------------------------------------------- files


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise InputError(
            f"{path}, line {line}: not UTF-8 ({error.reason}): fetch the file again."
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path.") from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield `(line number, line)` of a UTF-8 file, without line ends and empty lines."""
    # Only "\n" ends a line; other Unicode separators are part of the text.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.rstrip("\r")
        if line:
            yield number, line


def read_fields(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield `(place, fields)` of each line of a tab-separated file.

    Args:
        path: the file.
        names: of the fields of a line.

    Raises:
        InputError: a line has more or fewer fields.
    """
    for number, line in read_lines(path):
        fields = line.split("\t")
        if len(fields) != len(names):
            raise InputError(
                f"{path}, line {number}: {len(fields)} fields instead of"
                f" {', '.join(names[:-1])} and {names[-1]}: fetch the file again."
            )
        yield f"{path}, line {number}", fields


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}): fetch the file again.") from error


# ------------------------------------------------------------------------ errors


@contextmanager
def fields_checked(where: str) -> Iterator[None]:
    """Add the place to errors about missing fields or wrong types in the block."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: a field is missing or of a wrong type ({error}): fetch the file again."
        ) from error


def check_span(text: str, start: int, end: int, words: str, name: str, where: str) -> Span:
    """Return `(start, end)` after checking the text at this span.

    Raises:
        InputError: the text differs.
    """
    if not 0 <= start < end or text[start:end] != words:
        raise InputError(
            f"{where}: {name} is not the text at [{start}, {end}): fetch the file again."
        )
    return start, end


# ----------------------------------------------------------------------- records


class Everything(Container[str]):
    """A set of ids that contains every id."""

    def __contains__(self, name: object) -> bool:
        return True


def text_id(*texts: str) -> str:
    """Return an id made from a record's texts, for files without ids.

    It is the beginning of the SHA-1 of the texts, separated by tabs, in UTF-8.
    """
    content = "\t".join(texts).encode("utf-8")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()[:12]


def pool(
    files: list[Path],
    splits: dict[str, list[str]],
    read_records: Callable[[Path, Container[str]], Iterable[tuple[str, dict]]],
) -> dict[str, list[dict]]:
    """Collect the records of each split; any file may hold any record.

    Args:
        files: the files.
        splits: the pinned ids of each split.
        read_records: yields `(place, record)` for the wanted ids in a file.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned record is missing.
    """
    wanted = {name for ids in splits.values() for name in ids}
    records: Records = {}
    for path in files:
        for where, record in read_records(path, wanted):
            add_record(records, record, where)
    return pick_splits(records, splits, files)


def add_record(records: Records, record: dict, where: str) -> None:
    """Add a record; a repeated id must have an equal record."""
    if records.setdefault(record["id"], record) != record:
        raise InputError(
            f"{where}: record {record['id']} comes twice and differs: fetch the file again."
        )


def pick_splits(
    records: Records, splits: dict[str, list[str]], files: list[Path]
) -> dict[str, list[dict]]:
    """Return the records of each split, all read from the same files."""
    where = " and ".join(str(path) for path in files)
    return {split: pick(records, ids, split, where) for split, ids in splits.items()}


def pick(records: Records, ids: list[str], split: str, where: str) -> list[dict]:
    """Return the records of a pinned split in the pinned order.

    Args:
        records: by id; those that are not pinned are left out.
        ids: the pinned ids.
        split: name of the split, for the error.
        where: the file or files, for the error.

    Raises:
        InputError: a pinned record is missing.
    """
    missing = [name for name in ids if name not in records]
    if missing:
        raise InputError(
            f"{where}: record {missing[0]} of the {split} split is missing"
            f" ({len(missing)} of {len(ids)} are): fetch the whole file again."
        )
    return [records[name] for name in ids]
