"""Write predictions as a table in the format of a competition.

The form comes from sample_submission.csv: its header, the order of its rows, and the kind of its
cells. A cell is a number, a probability, a label, or the k most likely labels with blanks between.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import write_text
from extras.competition.settings import Settings
from extras.competition.tables import DELIMITERS, is_number, read_rows, show

KINDS = ("auto", "labels", "probabilities", "numbers", "grades", "ranked")
SHOWN_IDS = 3


@dataclass(frozen=True)
class Form:
    """The format of a table of predictions.

    Attributes:
        header: the id's column first.
        ids: in the order of the rows; None: in the order of prediction.
        kind: one of `KINDS`.
        first: the cells of the sample's first row without the id; empty: there is no sample.
    """

    header: tuple[str, ...]
    ids: list[str] | None
    kind: str
    first: tuple[str, ...] = ()


def read_form(sample: Path | None, columns: str, kind: str, encoding: str) -> Form:
    """Return the form that a sample, or the command line, asks for.

    Args:
        sample: sample_submission.csv; None: there is none.
        columns: a header with commas that replaces the sample's; empty: the sample's.
        kind: one of `KINDS`.
        encoding: of the sample.

    Raises:
        InputError: the sample is broken, or the header does not fit it.
    """
    header = tuple(name.strip() for name in columns.split(",") if name.strip())
    if kind not in KINDS:
        raise InputError(f"--values {kind} is unknown: choose one of {', '.join(KINDS)}.")
    if len(header) == 1:
        raise InputError(f"--columns {columns} names one column: name the id's and the answers'.")
    if sample is None:
        return Form(header, None, kind)
    rows = list(read_rows(sample, encoding))
    own = tuple(rows[0][1])
    if len(own) < 2:
        raise InputError(f"{sample} has only the column {own[0]!r}: a sample has ids and answers.")
    ids: dict[str, int] = {}
    for line, row in rows:
        if (first := ids.setdefault(row[own[0]].strip(), line)) != line:
            raise InputError(
                f"{sample}, line {line}: the id {row[own[0]]!r} is on line {first} already."
            )
    if header and len(header) != len(own):
        raise InputError(
            f"--columns names {len(header)} columns, but {sample} has {len(own)}: {show(own)}."
        )
    first_row = tuple(rows[0][1][name] for name in own[1:])
    return Form(header or own, list(ids), kind, first_row)


def write_table(
    path: Path, records: Sequence[dict], form: Form, labels: Any, settings: Settings
) -> None:
    """Write the records of a predictions file as a table.

    Args:
        path: .csv or .tsv.
        records: in the order of the predicted file.
        form: from `read_form`.
        labels: from `collect_targets`.
        settings: `metric`: `map_at_k` asks for ranked labels, `competition.k` of them in a cell.

    Raises:
        InputError: ids are missing or unknown, or the columns are not those of the predictions.
    """
    kind, k = choose_kind(form, labels, settings.metric), settings.competition.k  # type: ignore[attr-defined]
    names = answer_names(labels, kind)
    header = form.header or ("id", *(names or [cell_name(kind)]))
    if names and len(header) == 2 and len(names) > 1 and not labels.are_numbers:
        names = [single_probability(labels)]
    order = match_columns(header[1:], names)
    rows = {str(record["id"]): record for record in records}
    table = io.StringIO()
    writer = csv.writer(table, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\n")
    writer.writerow(header)
    for identity in match_ids(rows, form.ids):
        writer.writerow([identity, *make_cells(rows[identity], kind, order, labels, k)])
    write_text(path, table.getvalue())


def choose_kind(form: Form, labels: Any, metric: str) -> str:
    """Return the kind of the cells; `auto` follows from the sample.

    A run of numbers gives these, or grades where kappa decided. Other runs give labels, but
    probabilities where a column has the name of a label, or where the only column holds numbers
    that are not labels.

    Raises:
        InputError: the run predicts nothing of this kind.
    """
    kind = form.kind
    if kind == "auto":
        answers = form.header[1:]
        if labels.are_numbers:
            return "grades" if metric == "qwk" else "numbers"
        if answers and set(answers) <= set(labels.names):
            return "probabilities"
        if metric == "map_at_k":
            return "ranked"
        cell = form.first[0] if len(form.first) == 1 else ""
        likely = len(labels.names) == 2 and is_number(cell) and bool(cell.strip())
        return "probabilities" if likely and cell not in labels.names else "labels"
    if (kind in ("numbers", "grades")) != labels.are_numbers:
        what = "numbers" if labels.are_numbers else "labels"
        raise InputError(f"--values {kind} does not fit a run that predicts {what}: leave it out.")
    return kind


def cell_name(kind: str) -> str:
    """Return the column of a table without a header."""
    return "labels" if kind == "ranked" else "label"


def answer_names(labels: Any, kind: str) -> list[str]:
    """Return the names with one column each; empty: a row has one cell."""
    return list(labels.names) if kind in ("probabilities", "numbers", "grades") else []


def single_probability(labels: Any) -> str:
    """Return the label for a single probability column: the positive one, "1", or the last.

    Raises:
        InputError: more than two labels.
    """
    if labels.positive is not None:
        return labels.positive
    if len(labels.names) > 2:
        raise InputError(
            f"one column can't hold the probabilities of {len(labels.names)} labels: name a column "
            "for each, or write labels with --values labels."
        )
    return labels.names[-1]


def match_columns(answers: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return which answer each column holds: the one of its name, or by order if it has none.

    Raises:
        InputError: some names match and others don't, or the numbers differ.
    """
    if not names:
        if len(answers) != 1:
            raise InputError(
                f"the header has the columns {show(answers)} after the id, but a prediction is "
                "one cell: ask for another kind with --values."
            )
        return []
    if len(answers) != len(names) or (set(answers) & set(names) and set(answers) != set(names)):
        raise InputError(
            f"the columns {show(answers)} are not those of the predictions: {show(names)}."
        )
    return [name if name in names else other for name, other in zip(answers, names, strict=True)]


def match_ids(rows: dict[str, dict], ids: list[str] | None) -> list[str]:
    """Return the ids in the order of the rows.

    Raises:
        InputError: the sample has unpredicted records, or lacks predicted ones.
    """
    if ids is None:
        return list(rows)
    missing = [identity for identity in ids if identity not in rows]
    unknown = sorted(rows.keys() - set(ids))
    for what, own, every in (
        ("ids of the sample have no row in the predicted file", missing, len(ids)),
        ("predicted ids are not in the sample", unknown, len(rows)),
    ):
        if own:
            shown = ", ".join(own[:SHOWN_IDS]) + ", ..." * (len(own) > SHOWN_IDS)
            raise InputError(
                f"sample_submission and the predicted file differ: {len(own)} of {every} {what}: "
                f"{shown}: predict the file that the sample is of."
            )
    return ids


def make_cells(record: dict, kind: str, order: Sequence[str], labels: Any, k: int) -> list[Any]:
    """Return the cells of a row without the id."""
    if kind in ("numbers", "grades"):
        values = record.get("grades", {}) if kind == "grades" else {}
        return [values.get(name, record["targets"][name]) for name in order]
    if kind == "probabilities":
        return [record["probabilities"][name] for name in order]
    if kind == "ranked":
        likely = sorted(record["probabilities"].items(), key=lambda item: -item[1])
        return [" ".join(name for name, _ in likely[:k])]
    chosen = record.get("labels", [record.get("label")])
    if hierarchy := getattr(labels, "hierarchy", ""):  # a path says all of its parents
        inner = {parent for name in chosen for parent in [name.rpartition(hierarchy)[0]]}
        chosen = [name for name in chosen if name not in inner]
    return ["|".join(chosen)]
