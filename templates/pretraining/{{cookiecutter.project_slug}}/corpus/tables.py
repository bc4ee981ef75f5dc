"""Texts in the columns of tables: CSV, TSV and JSON Lines, and plain text."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.base.errors import InputError
from core.base.files import read_json_lines

DELIMITERS = {".csv": ",", ".tsv": "\t"}
RECORDS = (".jsonl", ".json")
LONGEST_CELL = 2**31 - 1


def read_cells(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the texts of a file; empty ones are skipped.

    Args:
        path: .csv and .tsv with a header, .jsonl, or any other name for one text a line.
        columns: of a table or of records.

    Raises:
        InputError: no such file or column, or a line can't be read.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path.")
    if path.suffix.lower() in (*DELIMITERS, *RECORDS) and not columns:
        raise InputError(f"{path} is a table: name its columns of text, --columns NAME,NAME.")
    read = read_records if path.suffix.lower() in RECORDS else read_lines
    read = read_table if path.suffix.lower() in DELIMITERS else read
    try:
        for text in read(path, columns):
            if text.strip():
                yield text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {broken_line(path)}: not UTF-8 ({error.reason}): save it as UTF-8."
        ) from error


def broken_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def read_lines(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of plain text."""
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            yield line.rstrip("\n")


def read_table(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the cells of some columns; a quoted cell may have several lines."""
    csv.field_size_limit(LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        # Strict: a quote that is never closed would make one text of all rows after it.
        rows = csv.DictReader(file, delimiter=DELIMITERS[path.suffix.lower()], strict=True)
        try:
            check_columns(path, 1, columns, rows.fieldnames or [])
            for row in rows:
                if None in row or None in row.values():
                    count = "more" if None in row else "fewer"
                    raise InputError(
                        f"{path}, line {rows.line_num}: {count} cells than the header has: check "
                        "the quotes of this row."
                    )
                yield from (row[name] for name in columns)
        except csv.Error as error:
            begin = rows.line_num + 1  # those before it were read
            raise InputError(
                f"{path}, line {begin}: {error}: check the quotes of this row."
            ) from error


def read_records(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the fields of the records of a JSON Lines file."""
    for number, record in read_json_lines(path, distinct_fields):
        check_columns(path, number, columns, list(record))
        for name in columns:
            if not isinstance(record[name], str):
                raise InputError(
                    f"{path}, line {number}: {name} is {record[name]!r}, not a text: name a column "
                    "of text."
                )
            yield record[name]


def distinct_fields(place: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; one value of a field that occurs twice would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{place}: the field {twice!r} occurs twice: rename one of them.")
    return found


def check_columns(path: Path, line: int, columns: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a column that a table or record doesn't have, or has twice."""
    for name in columns:
        if known.count(name) > 1:
            raise InputError(f"{path}, line {line}: two columns {name!r}: rename one of them.")
        if name not in known:
            raise InputError(
                f"{path}, line {line}: no column {name!r}: choose from {', '.join(known)}."
            )
