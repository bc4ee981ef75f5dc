"""Read and check records; every complaint names the file and the line."""

import difflib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from core.base.errors import InputError
from core.base.files import PROJECT, file_hash, read_json_lines

Id = str | int
Span = tuple[int, int]
AnyExample = TypeVar("AnyExample", bound=Any)
SHOWN_KEYS = 3
SHOWN_CHARACTERS = 400  # a line of a file may hold a megabyte


def read_records(
    path: str | Path, fields: Collection[str], read_one: Callable[[dict, int], AnyExample]
) -> list[AnyExample]:
    """Read a JSON Lines file of examples; warn of keys that nothing reads.

    Args:
        path: one record a line.
        fields: the keys of a record, and of the objects within it.
        read_one: from a record and its line to an example, which has an `id`.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    examples: list[AnyExample] = []
    lines: dict[str, int] = {}
    keys: list[str] = []
    strange: dict[str, list[int]] = {}

    def make_object(pairs: list[tuple[str, Any]]) -> dict:
        names = [name for name, _ in pairs]
        keys.extend(name for name in names if name not in fields or names.count(name) > 1)
        return dict(pairs)

    for line, record in read_json_lines(path, make_object):
        try:
            example = read_one(record, line)
            first = lines.setdefault(str(example.id), line)
            if first != line:
                raise InputError(
                    f"id {example.id!r} stands on line {first} already: give each record an id of "
                    "its own."
                )
        except InputError as error:
            raise InputError(f"{path}, line {line}: {shorten(str(error))}") from error
        examples.append(example)
        for key in dict.fromkeys(keys):
            strange.setdefault(key, []).append(line)
        keys.clear()
    if not examples:
        raise InputError(f"{path} holds no record: write one JSON object on each line.")
    for key, places in list(strange.items())[:SHOWN_KEYS]:
        what = explain_key(key, fields)
        print(f"warning: {path}, line {places[0]}, one of {len(places)}: {what}")
    if len(strange) > SHOWN_KEYS:
        print(f"warning: {path}: {len(strange) - SHOWN_KEYS} more keys like these")
    return examples


def explain_key(key: str, fields: Collection[str]) -> str:
    """Say what is wrong with a key: it stands twice in an object, or nothing reads it."""
    if key in fields:
        return f'"{key}" stands twice in one object, and the last one counts: keep one'
    close = difflib.get_close_matches(key, fields, n=1, cutoff=0.7)
    meant = f'did you mean "{close[0]}"?' if close else "take it out, or leave it"
    return f'nothing reads "{shorten(key)}": {meant}'


def shorten(text: str) -> str:
    """Return a text without its middle, if it is very long."""
    half = SHOWN_CHARACTERS // 2
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def read_field(record: dict, name: str, kind: Any) -> Any:
    """Return a field of a type: `str`, `list`, or `str | int` for ids.

    Raises:
        InputError: the field is missing or of another type.
    """
    if name not in record:
        raise InputError(f'the field "{name}" is missing: add it to the record.')
    if not isinstance(record[name], kind) or isinstance(record[name], bool):
        wanted = getattr(kind, "__name__", str(kind))
        known = {"str": "a string", "list": "a list", "object": "[start, end]"}
        wanted = known.get(wanted, "a string or a number")
        raise InputError(f'"{name}" must be {wanted}, not {record[name]!r}.')
    return record[name]


def read_id(record: dict) -> Id:
    """Return the id of a record, a string or a number, as it goes into what is written too."""
    return read_field(record, "id", str | int)


def read_span(item: dict, name: str, text: str) -> Span:
    """Return a span `[start, end)` of characters that lies in the text.

    Raises:
        InputError: the field is not a span, or lies outside.
    """
    return check_span(read_field(item, name, object), name, text)


def check_span(span: object, name: str, text: str) -> Span:
    """Return a value of a file as a span that lies in the text.

    Raises:
        InputError: it is not a span, or lies outside.
    """
    if not isinstance(span, list) or [type(offset) for offset in span] != [int, int]:
        raise InputError(f'"{name}" must be [start, end], two whole numbers, not {span!r}.')
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(
            f'the span "{name}" {span} is not inside the text of {len(text)} characters: offsets '
            "count characters from 0, and end is the first one after the span."
        )
    return start, end


def name_file(path: Path) -> dict[str, str]:
    """Return `file` and `data_hash` of a scored file.

    A file outside the project has its bare name: its folder is the participant's own business.
    """
    path = path.resolve()
    inside = path.is_relative_to(PROJECT)
    return {
        "file": path.relative_to(PROJECT).as_posix() if inside else path.name,
        "data_hash": file_hash(path),
    }
