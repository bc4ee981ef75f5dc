"""Make records, in the format of JSON Lines, of the rows of tables and of other JSON Lines."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import InputError
from core.base.extras import present
from core.data.records import WEIGHT, whole_number
from extras.competition.number_cells import is_finite, parse_number, read_number
from extras.competition.settings import Settings, Table
from extras.competition.text_template import OWN_TEXTS, fill

TRUTH = {"false": 0, "true": 1}  # as pandas and JSON write them, whatever the case

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
    candidate: str | None = None

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
            "candidate": self.candidate,
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
        record["id"] = read_id_cell(row, columns.id, "id")
    record |= read_groups(row, columns, str(record.get("id", record["text_a"])))
    if columns.candidate and "group" in record:
        name = read_id_cell(row, columns.candidate, "candidate")
        record["id"] = f"{record['group']}/{name}"
    if columns.weight and require_labels:
        weight = stripped(row.get(columns.weight))
        record[WEIGHT] = read_number(columns.weight, weight, table, "weight")
    cells = {name: stripped(row.get(name)) for name in (*columns.targets, columns.label) if name}
    if not require_labels and is_unlabelled(cells, columns, settings):
        return record
    if columns.label:
        return record | read_label_cell(columns.label, cells[columns.label], table.label_separator)
    if getattr(settings, "output", "labels") != "number":
        cells |= {name: read_truth(cell) for name, cell in cells.items()}
    numbers = {name: read_number(name, cells[name], table) for name in columns.targets}
    if getattr(settings, "output", "labels") == "number":
        return record | ({"targets": numbers} if numbers else {})
    if not require_labels and table.one_label is True and not any(numbers.values()):
        return record  # a file to predict may have 0 in all columns of a label
    return record | (label_of_columns(numbers, cells, table) if numbers else {})


def is_unlabelled(cells: dict[str, Any], columns: Columns, settings: Settings) -> bool:
    """Return whether a row has no gold: empty cells, or what hosts write there, such as -1 or NONE.

    Args:
        cells: of the gold, by column.
        columns: from `find_columns`.
        settings: `output`, and how numbers are written.
    """
    if any(is_empty(cell) for cell in cells.values()):
        return True
    numbers = [cell_number(cells[name], settings.competition) for name in columns.targets]
    of_labels = getattr(settings, "output", "labels") != "number"
    return any(n is None or of_labels and not 0 <= n <= 1 for n in numbers)


def read_truth(cell: Any) -> Any:
    """Return 1 for True and 0 for False, however they are written, and any other cell as it is."""
    return TRUTH.get(cell.casefold(), cell) if isinstance(cell, str) else cell


def cell_number(cell: Any, table: Table) -> float | None:
    """Return the number, or the truth value, of a cell; None: it has neither."""
    cell = read_truth(cell)
    if isinstance(cell, str):
        return parse_number(cell, table)
    return float(cell) if isinstance(cell, int | float) and is_finite(cell) else None


def read_id_cell(row: dict[str, Any], name: str, what: str) -> Any:
    """Return the id in a column; raises if it is empty."""
    if is_empty(identity := stripped(row.get(name))):
        raise InputError(f"the {what} in the column {name!r} is empty: give each row one.")
    return whole_number(identity)


def read_groups(row: dict[str, Any], columns: Columns, own: str) -> dict[str, Any]:
    """Return the group of a row, and that of its fold; one without a fold group has one of its own.

    Args:
        row: cells of a table, or values of JSON.
        columns: from `find_columns`.
        own: what tells the row from others.

    Raises:
        InputError: the group is empty.
    """
    found = {}
    for field, name in (("group", columns.group), ("fold_group", columns.fold_group)):
        if name is None or name not in row:  # a record of JSON Lines lacks it: see `check_alike`
            continue
        cell = whole_number(stripped(row[name]))
        if is_empty(cell) and field == "group":
            raise InputError(f"the group in the column {name!r} is empty: fill it in.")
        # No group of a file begins with a line break.
        found[field] = f"\n{own}" if is_empty(cell) else cell
    return found


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
    """Return a row whose lists of texts are joined, if `turn_separator` says so.

    Raises:
        InputError: none of the texts is a list.
    """
    own = [name for name in names if name in row and name not in OWN_TEXTS]
    if not table.turn_separator or not own:
        return row
    turns = {name: read_turns(row[name]) for name in own}
    joined = {name: table.turn_separator.join(f) for name, f in turns.items() if f is not None}
    if not joined:
        raise InputError(
            f"the text in the column {own[0]!r} is no list of texts in JSON, as "
            '["one", "two"], which competition.turn_separator joins: leave that setting '
            "empty to read texts as they are written."
        )
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
