"""What predict.py writes: JSON Lines, or a table, to which extras/competition gives any form."""

import csv
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import check_destination, project_path, write_json_lines, write_text
from core.prediction.loading import TrainedRuns
from task.records import Example, Labels

DELIMITERS = {".tsv": "\t", ".csv": ","}
# --sample, --columns and --values of the command line.
Wishes = tuple[Path | None, str, str]
NO_WISHES: Wishes = (None, "", "auto")


def write_submission(
    path: Path,
    records: Sequence[dict],
    groups: Sequence[str | None] = (),
    labels: Labels | None = None,
    runs: TrainedRuns | None = None,
    wishes: Wishes = NO_WISHES,
) -> None:
    """Write predictions as JSON Lines, or as a table where the file is called .tsv or .csv.

    A table has the columns `id` and `label`, with | between several labels, and for a ranking also
    `score`. With extras/competition it can have the form of a sample, or any other.

    Args:
        path: the file to write.
        records: from `prediction_records`.
        groups: of the examples; empty: they have none.
        labels: what the runs predict, and `runs`: these runs; None: a table of labels is written.
        wishes: from the command line.

    Raises:
        InputError: the wishes do not fit the predictions.
    """
    if path.suffix.lower() not in DELIMITERS:
        write_json_lines(path, records)
    elif labels and runs and (form := find_form(labels, runs, wishes, bool(groups))):
        table = need("competition", "submission")
        table.write_table(path, records, form, labels, runs.settings, groups)
    else:
        # One of several labels has no score of its own.
        write_plain_table(path, records, bool(groups) and "score" in records[0])


def refuse_sample(path: Path, sample: Path | None, settings: Any) -> None:
    """Refuse to write over the sample of the submission, before the work that fills it.

    Args:
        path: the file to write.
        sample: of the command line.
        settings: of the run, which may name another one.

    Raises:
        InputError: it is the sample.
    """
    named = getattr(getattr(settings, "competition", None), "sample_submission", "")
    for one in filter(None, (sample, named and project_path(named))):
        check_destination(path, one)


def check_submission(
    path: Path,
    examples: Sequence[Example],
    labels: Labels,
    runs: TrainedRuns,
    wishes: Wishes,
) -> None:
    """Refuse a form that does not fit, or other ids than the sample's, before the predictions.

    Raises:
        InputError: as in `write_submission`.
    """
    groups = [example.group for example in examples] if examples[0].group is not None else ()
    if path.suffix.lower() not in DELIMITERS:
        if wishes != NO_WISHES:
            raise InputError(
                f"{path} is not a table: call it .csv or .tsv for --sample and the like."
            )
    elif form := find_form(labels, runs, wishes, bool(groups)):
        ids = [str(example.id) for example in examples]
        need("competition", "submission").check_form(form, ids, labels, runs.settings, groups)


def find_form(labels: Labels, runs: TrainedRuns, wishes: Wishes, ranked: bool) -> object | None:
    """Return the form of the table; None: no form is asked for, and the metric is of labels."""
    sample, columns, values = wishes
    table = getattr(runs.settings, "competition", None)
    if sample is None and table is not None and table.sample_submission:
        sample = project_path(table.sample_submission)
    elif str(sample) == "none":  # that of the run is not to be followed
        sample = None
    if sample is None and wishes == NO_WISHES and not labels.are_numbers:
        form_of = need("competition", "submission") if table is not None else None
        if form_of is None or not form_of.decides(runs.settings, ranked):
            return None
    return need("competition", "submission").read_form(sample, columns, values, table)


def write_plain_table(path: Path, records: Sequence[dict], ranked: bool) -> None:
    """Write `id` and `label`, and `score` of a ranking."""
    columns = ["id", "label", *(["score"] if ranked else [])]
    joined = {name for record in records for name in record.get("labels", []) if "|" in name}
    if joined:
        raise InputError(
            f"the label {min(joined)!r} holds |, which separates the labels of a cell: rename it, "
            "or write JSON Lines, as in OUT.jsonl."
        )
    lines: list[str] = []
    # csv quotes a lone carriage return only where it is in what ends a row.
    out = SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(out, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\r\n")
    writer.writerow(columns)
    for record in records:
        row = {**record, "label": record.get("label", "|".join(record.get("labels", [])))}
        writer.writerow([row[column] for column in columns])
    write_text(path, "".join(lines))
    scores = ", score = the probability of the label to rank by" if ranked else ""
    print(f"cells: label = the predicted label{scores}")
