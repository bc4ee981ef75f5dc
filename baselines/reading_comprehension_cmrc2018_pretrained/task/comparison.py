"""Read the answers of predictions files, and set two scores side by side."""

import numpy as np

from common.errors import InputError
from task.data import Example
from task.metrics import ANSWER_KINDS, question_kind


def read_answer(place: str, record: dict, example: Example) -> str:
    """Return the text of the answer of a record of a predictions file; "": none."""
    try:
        span = record["answer"]
        start, end = (0, 0) if span is None else span
        return example.context[start:end]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def compare_kinds(examples: list[Example], run: np.ndarray, other: np.ndarray) -> dict[str, dict]:
    """Return both mean F1 scores of the questions with short, long and no answers.

    Args:
        examples: gold.
        run: exact match and F1 of each question `[questions, 2]`.
        other: the same of the other system.
    """
    kinds = np.array([question_kind(example) for example in examples])
    rows = {}
    for kind in ANSWER_KINDS:
        members = kinds == kind
        if not members.any():
            continue
        first, second = run[members], other[members]
        rows[kind] = {
            "run_score": float(first[:, 1].mean()),
            "other_score": float(second[:, 1].mean()),
            "difference": float(first[:, 1].mean() - second[:, 1].mean()),
            "run_correct": int(first[:, 0].sum()),
            "other_correct": int(second[:, 0].sum()),
            "gold": int(members.sum()),
        }
    return rows
