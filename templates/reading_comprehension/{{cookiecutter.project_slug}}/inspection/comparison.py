"""Read the answers of predictions files, and compare two scores."""

from collections.abc import Sequence

import numpy as np

from core.base.errors import InputError
from task.metrics import group_kinds
from task.records import Example


def read_answer(place: str, record: dict, example: Example) -> str:
    """Return the text of the answer of a record of a predictions file; "" if there is none."""
    try:
        span = record["answer"]
        start, end = (0, 0) if span is None else span
        answer = example.context[start:end]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error
    if span is not None and not 0 <= start < end <= len(example.context):
        raise InputError(
            f"{place}: the answer [{start}, {end}] is not inside the context of "
            f"{len(example.context)} characters: predict the same file."
        )
    return answer


def compare_kinds(
    examples: Sequence[Example], run: np.ndarray, other: np.ndarray
) -> dict[str, dict]:
    """Return both mean F1 scores of the questions with short, long and no answers.

    Args:
        examples: gold.
        run: exact match and F1 of each question `[questions, 2]`.
        other: the same for the other system.
    """
    rows = {}
    for kind, members in group_kinds(examples).items():
        (exact, f1), (other_exact, other_f1) = run[members].T, other[members].T
        rows[kind] = {
            "run_score": float(f1.mean()),
            "other_score": float(other_f1.mean()),
            "difference": float(f1.mean() - other_f1.mean()),
            "run_correct": int(exact.sum()),
            "other_correct": int(other_exact.sum()),
            "gold": len(members),
        }
    return rows
