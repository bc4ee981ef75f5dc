"""Read .csv and .tsv files of competitions directly, with columns of any name.

Python's own csv module reads them. pandas would turn texts such as "NA" and "null" into missing
values and ids such as "007" into numbers. It would also guess broken rows, and names no line.
"""

import ast
import csv
import functools
import itertools
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.base.errors import InputError
from core.base.extras import present
from core.base.files import project_path
from core.data.records import WEIGHT, read_stream, read_weighted
from extras.competition.quotes import Lines, encloses_cells, explain_quotes, swallows_rows
from extras.competition.settings import Settings, Table

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Usual names of the column of the text, where the settings name none.
TEXT_NAMES = ("text_a", "text", "full_text", "excerpt", "comment_text", "sentence", "content")
SHOWN_COLUMNS = 12
FIRST_ROWS = 100  # used to find the text column


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read; None: the file has no such column."""

    id: str | None
    text: str
    pair: str | None
    label: str | None
    targets: tuple[str, ...]
    group: str | None
    fold_group: str | None
    weight: str | None

    def describe(self) -> str:
        """Return in words what each column is read as."""
        parts = {
            "id": self.id or "counted from 0",
            "text": self.text,
            "pair": self.pair,
            "label": self.label,
            "targets": ", ".join(self.targets),
            "group": self.group,
            "fold group": self.fold_group,
            "weight": self.weight,
        }
        return "; ".join(f"{what}: {name}" for what, name in parts.items() if name)


def read_table(
    path: str | Path,
    settings: Settings,
    require_labels: bool,
    read_one: Callable[[dict, int], Any],
) -> Sequence[Any]:
    """Read the examples of a .csv or .tsv file; with extras/cache from its files.

    Args:
        path: of the file; the first row is the header.
        settings: the table `competition` names the columns.
        require_labels: False for files to predict, whose labels may be absent or empty.
        read_one: makes an example from a record in the format of JSON Lines and its line. Targets
            are in `targets`, name -> number.

    Raises:
        InputError: names file, line and what is wrong.
    """
    first_rows = [*itertools.islice(read_rows(path, settings.competition.encoding), FIRST_ROWS)]
    columns = find_columns(path, [*first_rows[0][1]], first_rows, settings, require_labels)
    print(f"{Path(path).name}: {columns.describe()}")
    stream = functools.partial(
        stream_examples,
        path=Path(path),
        columns=columns,
        settings=settings,
        require_labels=require_labels,
        read_one=read_one,
    )
    examples = read_stream(path, stream)
    lines: dict[str, int] = {}
    for example in examples if isinstance(examples, list) else ():  # kept ones were checked
        if (first := lines.setdefault(str(example.id), example.line)) != example.line:
            raise InputError(
                f"{path}, line {example.line}: id {example.id!r} is on line {first} already: "
                "give each row an id of its own, or name the column of the ids with "
                "competition.id_column."
            )
    return examples


def stream_examples(
    path: Path,
    columns: Columns,
    settings: Settings,
    require_labels: bool,
    read_one: Callable[[dict, int], Any],
) -> Iterator[Any]:
    """Yield the examples of a table in order; arguments and errors as in `read_table`."""
    for position, (line, row) in enumerate(read_rows(path, settings.competition.encoding)):
        try:
            record = make_record(row, columns, settings, require_labels)
            yield read_weighted({"id": position, **record}, line, read_one)
        except InputError as error:
            what = textwrap.shorten(str(error), 400, placeholder=" [...].")
            raise InputError(f"{path}, line {line}: {what}") from error


def read_rows(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, str]]]:
    """Yield `(line, row)`: the first line of a row, and its cells by column.

    A byte order mark and empty lines are skipped. Quoted cells may contain line breaks. In .tsv the
    lines say whether quotes enclose cells: see `encloses_cells`.

    Raises:
        InputError: the file is absent, empty or in another encoding, or a row is broken.
    """
    path = Path(path)
    delimiter, lines = DELIMITERS[path.suffix.lower()], Lines(read_lines(path, encoding))
    reader = csv.reader(
        lines, delimiter=delimiter, quoting=find_quoting(path, encoding), strict=True
    )
    header: list[str] | None = None
    count, line = 0, 1
    limit = csv.field_size_limit(sys.maxsize)  # of the whole process: restored below
    try:
        for cells in reader:
            begin, line = line, reader.line_num + 1
            if line > begin + 1 and swallows_rows(lines.last, delimiter):
                raise InputError(
                    f"{path}, lines {begin} to {line - 1}: a double quote opens a cell here and is "
                    "closed lines later, and each of these lines is a row: close the quote where "
                    "its text ends, or write a quote that belongs to a text twice within quotes."
                    + explain_quotes(path, read_lines(path, encoding), delimiter)
                )
            lines.forget()
            if not cells:
                continue
            if header is None:
                header = check_header(path, begin, cells)
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, line {begin}: {len(cells)} cells, but the header has {len(header)} "
                    "columns: put a text that holds commas, tabs, quotes or line breaks into "
                    "double quotes."
                )
            count += 1
            yield begin, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        what = str(error).replace("'\t'", "a tab")
        if "unexpected end" in what:
            what = "a double quote that opens in this row is never closed"
        advice = 'within quotes write a double quote twice, as in "say ""yes"""'
        advice += "." + explain_quotes(path, read_lines(path, encoding), delimiter)
        raise InputError(f"{path}, line {line}: {what}: {advice}") from error
    finally:
        csv.field_size_limit(limit)
    if not count:
        what = "holds a header and no row" if header else "is empty"
        raise InputError(f"{path} {what}: the first line names the columns, rows follow.")


def find_quoting(path: Path, encoding: str) -> Literal[0, 3]:
    """Return how the csv module has to take the quotes of a table."""
    enclosing = path.suffix.lower() != ".tsv" or encloses_cells(read_lines(path, encoding))
    return csv.QUOTE_MINIMAL if enclosing else csv.QUOTE_NONE


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the unchanged lines of a file, without a byte order mark."""
    if not path.is_file():
        raise InputError(f"{path} is not a file: check the path, or the setting that names it.")
    try:
        with open(path, encoding=encoding, newline="") as file:
            yield next(file, "").removeprefix("\ufeff")
            yield from file
    except UnicodeError as error:
        line = line_of_fault(path.read_bytes(), encoding)
        raise InputError(
            f"{path}, line {line}: not {encoding}: save the file as UTF-8, or set "
            "competition.encoding to what it is, such as cp1252, utf-16 or gb18030."
        ) from error


def line_of_fault(content: bytes, encoding: str) -> int:
    """Return the line of the first bytes that are invalid in an encoding."""
    try:
        content.decode(encoding)
    except UnicodeError as error:
        return content.count(b"\n", 0, getattr(error, "start", 0)) + 1
    return 1


def check_header(path: Path, line: int, names: list[str]) -> list[str]:
    """Return the stripped names of the columns."""
    names = [name.strip() for name in names]
    twice = sorted({name for name in names if names.count(name) > 1 and name})
    if twice:
        raise InputError(f"{path}, line {line}: the header names {twice[0]!r} twice: rename one.")
    if len(names) == 1 and re.search(r"[;\t|]", names[0]):
        raise InputError(
            f"{path}, line {line}: the header is a single column {names[0]!r}: separate columns by "
            "commas in .csv, and by tabs in .tsv."
        )
    return [name or f"unnamed {number}" for number, name in enumerate(names, start=1)]


def find_columns(
    path: str | Path,
    header: Sequence[str],
    rows: Sequence[tuple[int, dict[str, str]]],
    settings: Settings,
    require_labels: bool,
) -> Columns:
    """Return the columns to read, from the settings, sample_submission or usual names.

    Raises:
        InputError: a column of the settings is absent, or the text column is ambiguous.
    """
    table = settings.competition
    sample_id, sample_rest = read_sample_header(table)
    number = getattr(settings, "output", "labels") == "number"

    def column(name: str, setting: str, required: bool = True) -> str | None:
        if name and name not in header and required:
            raise InputError(
                f"{path} has no column {name!r}, which competition.{setting} names: its columns "
                f"are {show(header)}."
            )
        return name if name in header else None

    identity = column(table.id_column, "id_column")
    for name in (sample_id, "id", "Id", "ID"):
        identity = identity or column(name, "", required=False)
    targets, label = table.target_names, None
    if not targets and not table.label_column and (number or len(sample_rest) > 1):
        known = all(name in header for name in sample_rest)
        targets = sample_rest if sample_rest and (known or not require_labels) else ("target",)
        targets = targets if number or known else ()
    if number or targets:
        names = [column(name, "target_columns", require_labels) for name in targets]
        targets = tuple(targets) if all(names) else ()
    if not number and not targets:
        wanted = table.label_column or "".join(sample_rest[:1]) or "label"
        if wanted not in header and "label" in header and not table.label_column:
            wanted = "label"
        label = column(wanted, "label_column", require_labels)
    pair = column(table.pair_column, "pair_column")
    group = column(table.group_column, "group_column")
    fold_group = column(table.fold_group_column, "fold_group_column", require_labels)
    pair = pair or column("text_b", "", required=False)
    weight = column(table.weight_column, "weight_column", require_labels)
    taken = {identity, label, *targets, group, fold_group, pair, weight}
    text = column(table.text_column, "text_column") or find_text(path, header, rows, taken)
    return Columns(identity, text, pair, label, targets, group, fold_group, weight)


def find_text(
    path: str | Path,
    header: Sequence[str],
    rows: Sequence[tuple[int, dict[str, str]]],
    taken: set[str | None],
) -> str:
    """Return the text column: the one with a usual name, or the only one with words."""
    free = [name for name in header if name not in taken]
    named = [name for name in TEXT_NAMES if name in free]
    if named:
        return named[0]
    worded = [name for name in free if not all(is_number(row[name]) for _, row in rows[:100])]
    if len(worded) != 1:
        raise InputError(
            f"{path}: which column is the text? Set competition.text_column: the columns are "
            f"{show(header)}."
        )
    return worded[0]


def read_sample_header(table: Table) -> tuple[str, tuple[str, ...]]:
    """Return the first column of sample_submission, and the others; empty: no sample."""
    if not table.sample_submission:
        return "", ()
    path = project_path(table.sample_submission)
    _, row = next(read_rows(path, table.encoding))
    first, *others = row
    return first, tuple(others)


def show(header: Sequence[str]) -> str:
    """Return the names of columns, at most `SHOWN_COLUMNS` of them."""
    return ", ".join(header[:SHOWN_COLUMNS]) + (", ..." if len(header) > SHOWN_COLUMNS else "")


def make_record(
    row: dict[str, str], columns: Columns, settings: Settings, require_labels: bool
) -> dict[str, Any]:
    """Return a row in the format of JSON Lines, with `targets` for numbers.

    Raises:
        InputError: the id or a label is empty, or a target is no number.
    """
    record: dict[str, Any] = {"text_a": row[columns.text]}
    if columns.id:
        if not row[columns.id].strip():
            raise InputError(f"the id in the column {columns.id!r} is empty: give each row one.")
        record["id"] = row[columns.id].strip()
    names = {"text_b": columns.pair, "group": columns.group, "fold_group": columns.fold_group}
    record |= {field: row[name] for field, name in names.items() if name}
    if columns.weight and require_labels:
        record[WEIGHT] = read_number(columns.weight, row[columns.weight].strip(), "weight")
    cells = {name: row[name].strip() for name in (*columns.targets, columns.label) if name}
    if not require_labels and not all(cells.values()):
        return record
    if columns.label:
        separator = settings.competition.label_separator
        record |= read_label_cell(columns.label, cells[columns.label], separator)
    elif columns.targets:
        numbers = {name: read_number(name, cells[name]) for name in columns.targets}
        if getattr(settings, "output", "labels") == "number":
            return {**record, "targets": numbers}
        soft = "distillation" in present() and any(0 < value < 1 for value in numbers.values())
        for name, value in numbers.items():
            if value not in (0, 1) and not (soft and 0 < value < 1):
                raise InputError(
                    f"the label {name!r} is {cells[name]!r}: write 0 or 1, or set "
                    'output = "number" to predict it as a number.'
                )
        if soft:  # probabilities, which extras/distillation reads
            return {**record, "label" if settings.competition.one_label else "labels": numbers}
        found = [name for name, value in numbers.items() if value]
        if not settings.competition.one_label:
            return {**record, "labels": found}
        if len(found) != 1:
            raise InputError(
                f"{len(found)} of the columns {show(columns.targets)} are 1, and with "
                "competition.one_label exactly one must be: correct the row, or set it to false."
            )
        record["label"] = found[0]
    return record


def read_label_cell(name: str, cell: str, separator: str) -> dict[str, Any]:
    """Return `label`, or `labels` if a cell holds several."""
    if holds_several(cell):
        raise InputError(
            f"the label in the column {name!r} is {cell!r}, which lists labels as a program does: "
            f"write {'them as a|b' if not separator else f'them as a{separator}b'}, with "
            "competition.label_separator, or one label."
        )
    if separator:
        return {"labels": [part.strip() for part in cell.split(separator) if part.strip()]}
    if not cell:
        raise InputError(f"the label in the column {name!r} is empty: fill it in, or leave it out.")
    return {"label": cell}


def holds_several(cell: str) -> bool:
    """Return whether a cell is a list or an object in JSON, or as Python prints it."""
    if not cell.startswith(("{", "[")):
        return False
    for read in (json.loads, ast.literal_eval):
        try:
            return isinstance(read(cell), list | dict | set)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return False


def is_number(cell: str) -> bool:
    """Return whether a cell is empty or a number."""
    return not cell.strip() or bool(re.fullmatch(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", cell, re.I))


def read_number(name: str, cell: str, what: str = "target") -> float:
    """Return the number in a cell.

    Args:
        name: of the column.
        cell: without blanks around it.
        what: the word for the number.

    Raises:
        InputError: the cell is empty, or not a finite number.
    """
    if not cell:
        raise InputError(f"the {what} {name!r} is empty: fill it in, or leave the row out.")
    written = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", cell, re.I)
    if not written or not math.isfinite(float(cell)):
        raise InputError(
            f"the {what} {name!r} is {cell!r}, which is not a finite number: write it as 2.5."
        )
    return float(cell)
