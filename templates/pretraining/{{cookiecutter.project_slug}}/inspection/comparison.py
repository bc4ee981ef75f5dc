"""Read the counts of predictions files, and compare two runs by length of text."""

from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.files import read_json_lines
from task.metrics import accuracy

COLUMNS = 3
# Upper ends of the groups of texts in the table, as shares of all.
LENGTHS = {"short": 1 / 3, "middle": 2 / 3, "long": 1.0}


def check_same_texts(run: Any, other: Any) -> None:
    """Refuse two runs that predicted different tokens.

    Raises:
        InputError: they were scored on different texts, or with different vocabularies.
    """
    if run.data_hash != other.data_hash:
        raise InputError(
            f"{run.name} was scored on {run.file} and {other.name} on {other.file}, which differ "
            "in texts or vocabulary, so their scores are not comparable: compare runs on the same "
            "shards."
        )


def read_columns(scored: Any) -> np.ndarray:
    """Return correct and predicted tokens and the sum of -log p of each text `[texts, 3]`.

    Raises:
        InputError: the predictions file is absent or broken.
    """
    path = scored.folder / "predictions" / "dev.jsonl"
    rows = []
    for line, record in read_json_lines(path):
        row = record.get("statistics")
        if (
            not isinstance(row, list)
            or len(row) != COLUMNS
            or not all(isinstance(number, int | float) for number in row)
        ):
            raise InputError(
                f"{path}, line {line}: not a scored prediction: train again, or restore the file."
            )
        rows.append(row)
    return np.array(rows, float).reshape(-1, COLUMNS)


def compare_lengths(run: np.ndarray, other: np.ndarray) -> dict[str, dict]:
    """Return both scores of the texts with few, more and many predicted tokens.

    Args:
        run: columns of the first system.
        other: of the second, for the same texts.

    Raises:
        InputError: the numbers of texts, or of their predicted tokens, differ.
    """
    if run.shape != other.shape or (run[:, 1] != other[:, 1]).any():
        raise InputError(
            "the two runs predicted different tokens of the same texts: train both with the same "
            "objective and mask_rate."
        )
    order = np.argsort(run[:, 1], kind="stable")
    rows, first = {}, 0
    for name, share in LENGTHS.items():
        last = round(share * len(order))
        group, first = order[first:last], last
        if not len(group):
            continue
        scores = [float(accuracy(*columns[group].T)) for columns in (run, other)]
        sizes = run[group, 1].astype(int)
        rows[f"{name}: {sizes.min()} to {sizes.max()} predicted tokens"] = {
            "run_score": scores[0],
            "other_score": scores[1],
            "difference": scores[0] - scores[1],
            "run_correct": int(run[group, 0].sum()),
            "other_correct": int(other[group, 0].sum()),
            "gold": int(sizes.sum()),
        }
    return rows
