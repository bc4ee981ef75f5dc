"""Texts in the columns of tables: CSV, TSV and JSON Lines, and plain text."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.base.errors import InputError

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
                # Half a surrogate pair is legal in JSON, and in no text.
                yield text.encode("utf-8", "replace").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason}): save it as UTF-8.") from error


def read_lines(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of plain text."""
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            yield line.rstrip("\n")


def read_table(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the cells of some columns; a quoted cell may have several lines."""
    csv.field_size_limit(LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=DELIMITERS[path.suffix.lower()])
        check_columns(path, 1, columns, rows.fieldnames or [])
        try:
            for row in rows:
                for name in columns:
                    if row[name] is None:
                        raise InputError(
                            f"{path}, line {rows.line_num}: fewer cells than the header has: "
                            "check the quotes of this row."
                        )
                    yield row[name]
        except csv.Error as error:
            raise InputError(
                f"{path}, line {rows.line_num}: {error}: check the quotes of this row."
            ) from error


def read_records(path: Path, columns: Sequence[str]) -> Iterator[str]:
    """Yield the fields of the records of a JSON Lines file."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise InputError(
                    f"{path}, line {number}: no JSON object: write one record on each line."
                )
            check_columns(path, number, columns, list(record))
            for name in columns:
                value = record[name]
                if not isinstance(value, str):
                    raise InputError(
                        f"{path}, line {number}: {name} is {value!r}, not a text: name a column of "
                        "text."
                    )
                yield value


def check_columns(path: Path, line: int, columns: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a column that a table or record doesn't have."""
    for name in columns:
        if name not in known:
            raise InputError(
                f"{path}, line {line}: no column {name!r}: choose from {', '.join(known)}."
            )
