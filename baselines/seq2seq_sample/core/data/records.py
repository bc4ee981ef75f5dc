"""Read and check records; every complaint names the file and the line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from core.base.errors import InputError
from core.base.files import PROJECT, file_hash, read_json_lines

Span = tuple[int, int]
AnyExample = TypeVar("AnyExample", bound=Any)


def read_records(path: str | Path, read_one: Callable[[dict, int], AnyExample]) -> list[AnyExample]:
    """Read a JSON Lines file of examples.

    Args:
        path: one record a line.
        read_one: from a record and its line to an example, which has an `id`.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    examples: list[AnyExample] = []
    lines: dict[str, int] = {}
    for line, record in read_json_lines(path):
        try:
            example = read_one(record, line)
        except InputError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
        if example.id in lines:
            raise InputError(
                f"{path}, line {line}: id {example.id!r} stands on line {lines[example.id]} "
                "already: give each record an id of its own."
            )
        lines[example.id] = line
        examples.append(example)
    if not examples:
        raise InputError(f"{path} holds no record: write one JSON object on each line.")
    return examples


def read_field(record: dict, name: str, kind: Any) -> Any:
    """Return a field of a type: `str`, `list`, or `str | int` for ids.

    Raises:
        InputError: the field is missing or of another type.
    """
    if name not in record:
        raise InputError(f'the field "{name}" is missing: add it to the record.')
    if not isinstance(record[name], kind) or isinstance(record[name], bool):
        wanted = getattr(kind, "__name__", str(kind))
        wanted = {"str": "a string", "list": "a list"}.get(wanted, "a string or a number")
        raise InputError(f'"{name}" must be {wanted}, not {record[name]!r}.')
    return record[name]


def read_id(record: dict) -> str:
    """Return the id of a record, which may be a number in the file."""
    return str(read_field(record, "id", str | int))


def read_span(item: dict, name: str, text: str) -> Span:
    """Return a span `[start, end)` of characters that lies in the text.

    Raises:
        InputError: the field is not a span, or lies outside.
    """
    return check_span(read_field(item, name, list), name, text)


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
