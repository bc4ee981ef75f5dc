"""Make records, in the format of JSON Lines, of the rows of tables and of other JSON Lines."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import InputError
from core.base.extras import present
from core.data.records import WEIGHT
from extras.competition.number_cells import read_number
from extras.competition.settings import Settings, Table
from extras.competition.text_template import OWN_TEXTS, fill

SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read; None: the file has no such column."""

    id: str | None
    texts: tuple[str, ...]
    label: str | None
    targets: tuple[str, ...]
    group: str | None
    fold_group: str | None
    weight: str | None
    choices: tuple[str, ...] = ()

    def describe(self, counted: str, table: Table, header: Sequence[str]) -> str:
        """Return in words what each column is read as, and which are not read.

        Args:
            counted: what replaces an id.
            table: may join columns by a template.
            header: all columns.
        """
        joined = len(table.text_names) if table.text_template else 0
        whole = [f"{', '.join(self.texts[:joined])}, joined by text_template"] if joined else []
        texts = [*whole, *self.texts[joined:]]
        names = ("text", "pair") if len(texts) < 3 else ("texts",)
        texts = texts if len(texts) < 3 else [", ".join(texts)]
        parts = {
            "id": self.id or counted,
            **dict(zip(names, texts, strict=False)),
            "label": self.label,
            "choices": ", ".join(self.choices),
            "targets": ", ".join(self.targets),
            "group": self.group,
            "fold group": self.fold_group,
            "weight": self.weight,
        }
        known = {*parts.values(), *self.texts, *self.choices, *self.targets}
        known |= {"context"} if self.texts[:1] == ("text_a",) else set()
        parts["not read"] = show([name for name in header if name not in known])
        return "; ".join(f"{what}: {name}" for what, name in parts.items() if name)


def show(header: Sequence[str]) -> str:
    """Return the names of columns, at most `SHOWN_COLUMNS` of them."""
    return ", ".join(header[:SHOWN_COLUMNS]) + (", ..." if len(header) > SHOWN_COLUMNS else "")


def make_record(
    row: dict[str, Any], columns: Columns, settings: Settings, require_labels: bool
) -> dict[str, Any]:
    """Return a row in the format of JSON Lines, with `targets` for numbers.

    Of more than two texts the last two are `text_a` and `text_b`, and the others their `context`.
    A record with fields of the project's own format keeps its own context.

    Args:
        row: cells of a table, or values of JSON.
        columns: from `find_columns`.
        settings: the table `competition`.
        require_labels: False: labels may be absent or empty.

    Raises:
        InputError: the id or a label is empty, or a target is no number.
    """
    table = settings.competition
    row = with_turns(row, columns.texts, table)
    joined = [fill(table.text_template, row)] if table.text_template else []
    others = columns.texts[len(table.text_names) :] if joined else columns.texts
    texts = joined + [read_text(row, name) for name in others]
    record: dict[str, Any] = dict(zip(("text_a", "text_b"), texts[-2:], strict=False))
    if len(texts) > 2:
        record["context"] = texts[:-2]
    elif columns.texts[:1] == ("text_a",) and isinstance(row.get("context"), list):
        record["context"] = row["context"]
    if columns.id:
        if is_empty(identity := stripped(row.get(columns.id))):
            raise InputError(f"the id in the column {columns.id!r} is empty: give each row one.")
        record["id"] = identity
    names = {"group": columns.group, "fold_group": columns.fold_group}
    record |= {f: row[name] for f, name in names.items() if name and row.get(name) is not None}
    if columns.weight and require_labels:
        weight = stripped(row.get(columns.weight))
        record[WEIGHT] = read_number(columns.weight, weight, table, "weight")
    cells = {name: stripped(row.get(name)) for name in (*columns.targets, columns.label) if name}
    if not require_labels and any(is_empty(cell) for cell in cells.values()):
        return record
    if columns.label:
        return record | read_label_cell(columns.label, cells[columns.label], table.label_separator)
    numbers = {name: read_number(name, cells[name], table) for name in columns.targets}
    if getattr(settings, "output", "labels") == "number":
        return record | ({"targets": numbers} if numbers else {})
    return record | (label_of_columns(numbers, cells, table) if numbers else {})


def stripped(value: Any) -> Any:
    """Return a string without blanks around it, and any other value as it is."""
    return value.strip() if isinstance(value, str) else value


def is_empty(value: Any) -> bool:
    """Return whether a cell is empty, or a value of JSON absent."""
    return value is None or value == ""


def read_text(row: dict[str, Any], name: str) -> str:
    """Return a text of a row.

    Raises:
        InputError: it is absent, or no string.
    """
    if name not in row:
        raise InputError(f'the field "{name}" is missing: add it to the record.')
    if not isinstance(row[name], str):
        raise InputError(f'"{name}" must be a string, not {row[name]!r}.')
    return row[name]


def with_turns(row: dict[str, Any], names: Sequence[str], table: Table) -> dict[str, Any]:
    """Return a row whose texts are joined of lists of texts, if `turn_separator` says so.

    Raises:
        InputError: a text is no list.
    """
    if not table.turn_separator:
        return row
    joined = {}
    for name in names:
        if name in row and name not in OWN_TEXTS:
            turns = read_turns(row[name])
            if turns is None:
                raise InputError(
                    f"the text in the column {name!r} is no list of texts in JSON, as "
                    '["one", "two"], which competition.turn_separator joins: leave that setting '
                    "empty to read texts as they are written."
                )
            joined[name] = table.turn_separator.join(turns)
    return {**row, **joined}


def read_turns(value: Any) -> list[str] | None:
    """Return the texts of a list in JSON, "" for null; None: it is something else.

    Half of a character, which some hosts write as an escape, becomes the replacement character.
    """
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return None
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or not all(isinstance(turn, str | None) for turn in value):
        return None
    halves = [(turn or "").encode("utf-16-le", "surrogatepass") for turn in value]
    return [turn.decode("utf-16-le", "replace") for turn in halves]


def label_of_columns(numbers: dict[str, float], cells: dict, table: Table) -> dict[str, Any]:
    """Return the label, or the labels, of columns of 0 and 1, or of probabilities.

    Raises:
        InputError: a number is neither, or not exactly one label holds where one has to.
    """
    one = table.one_label is True
    soft = "distillation" in present() and any(0 < value < 1 for value in numbers.values())
    for name, value in numbers.items():
        if value not in (0, 1) and not (soft and 0 < value < 1):
            raise InputError(
                f"the label {name!r} is {cells[name]!r}: write 0 or 1, or set "
                'output = "number" to predict it as a number.'
            )
    if soft:  # probabilities, which extras/distillation reads
        return {"label" if one else "labels": numbers}
    found = [name for name, value in numbers.items() if value]
    if not one:
        return {"labels": found}
    if len(found) != 1:
        raise InputError(
            f"{len(found)} of the columns {show([*numbers])} are 1, and with "
            "competition.one_label exactly one must be: correct the row, or set it to false."
        )
    return {"label": found[0]}


def read_label_cell(name: str, cell: Any, separator: str) -> dict[str, Any]:
    """Return `label`, or `labels` if a cell holds several."""
    if not isinstance(cell, str | None):  # a value of JSON
        several = isinstance(cell, list) or isinstance(cell, dict) and name == "labels"
        return {"labels" if several else "label": cell}
    if cell and holds_several(cell):
        raise InputError(
            f"the label in the column {name!r} is {cell!r}, which lists labels as a program does: "
            f"write {'them as a|b' if not separator else f'them as a{separator}b'}, with "
            "competition.label_separator, or one label."
        )
    if separator:
        parts = (cell or "").split(separator)
        return {"labels": [part.strip() for part in parts if part.strip()]}
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
