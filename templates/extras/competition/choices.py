"""Questions with their choices in columns: one row becomes a group of candidates.

A table of pairs, chosen and rejected, is a question with two choices, of which the first is always
right. Files to predict may hold one answer in each row instead: those are scored without a group.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from core.base.errors import InputError
from extras.competition.records import Columns, is_empty, make_record, show, stripped
from extras.competition.settings import Settings, Table

SCORE = "score"  # the name of the one number that a candidate has


def choice_records(
    row: dict[str, Any],
    columns: Columns,
    settings: Settings,
    require_labels: bool,
    number: int,
) -> Iterator[dict[str, Any]]:
    """Yield a record for each choice of a question; empty cells are no choices.

    The group is the id of the row; that of a record has the column too, as in `17/A`.

    Args:
        row: cells of a table, or values of JSON.
        columns: from `find_columns`; their `texts` are those before the choice.
        settings: the table `competition`.
        require_labels: False: the answer may be absent or empty.
        number: the id of a row without one.

    Raises:
        InputError: the row has no choice, or the answer is none of them.
    """
    table = settings.competition
    offered = [name for name in columns.choices if not is_empty(stripped(row.get(name)))]
    if not offered:
        raise InputError(f"the columns {show(columns.choices)} are all empty: write the choices.")
    right = read_answer(row, columns, table, require_labels)
    if lost := [name for name in right or () if name not in offered]:
        raise InputError(
            f"the right choice is {lost[0]!r}, but the column {lost[0]!r} is empty: write it there."
        )
    for name in offered:
        own = replace(columns, texts=(*columns.texts, name), label=None, choices=())
        record = make_record(row, own, settings, require_labels)
        identity = record.get("id", number)
        record |= {"id": f"{identity}/{name}", "group": identity, "choice": name}
        yield record if right is None else {**record, "targets": {SCORE: float(name in right)}}


def read_answer(
    row: dict[str, Any], columns: Columns, table: Table, require_labels: bool
) -> list[str] | None:
    """Return the choice columns that are right; None: that is unknown.

    Raises:
        InputError: the answer is empty, or no choice.
    """
    if table.right_choice:
        return [table.right_choice]
    cell = stripped(row.get(columns.label)) if columns.label else None
    if is_empty(cell):
        if require_labels:
            raise InputError(
                f"the answer in the column {columns.label!r} is empty: write the name of the right "
                "choice's column."
            )
        return None
    parts = str(cell).split(table.label_separator) if table.label_separator else [str(cell)]
    answers = [table.aliases.get(part.strip(), part.strip()) for part in parts]
    if unknown := [answer for answer in answers if answer not in columns.choices]:
        if not require_labels:  # -1 or ?, as a file to predict may have it
            return None
        raise InputError(
            f"the answer in the column {columns.label!r} is {unknown[0]!r}, but the choices are "
            f"{show(columns.choices)}: write one of these, or give it another name with "
            "competition.label_aliases."
        )
    return answers
