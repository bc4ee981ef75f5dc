"""Read the records of predictions files, and compare two runs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.files import read_json
from core.runs.scores import read_scores
from generation.text_metrics import bleu_score
from task.records import Example

# Score -> how it is computed from the columns that the prediction records hold.
STATISTICS: dict[str, Callable[..., np.ndarray]] = {
    "bleu": bleu_score,
    "exact_match": np.mean,
    "rouge_l": np.mean,
}
# Of a group of records: all its targets may have less than four tokens.
OF_GROUPS: dict[str, Callable[..., np.ndarray]] = {
    **STATISTICS,
    "bleu": partial(bleu_score, effective_order=True),
}
COLUMNS = {"bleu": 10, "exact_match": 1, "rouge_l": 1}
# Upper ends of the groups of records in the table, as shares of all, shortest first.
LENGTHS = {"short": 1 / 3, "middle": 2 / 3, "long": 1.0}


def check_same_scores(run: Any, other: Any) -> str:
    """Return the score that chose the best epoch of the first run.

    Raises:
        InputError: the score has no entry here, or the two runs were scored with different
            `bleu_tokenizer` or `lowercase_scores`.
    """
    paths = [scored.folder / "config.json" for scored in (run, other)]
    configs = [read_json(path) if path.is_file() else {} for path in paths]
    for setting in ("bleu_tokenizer", "lowercase_scores"):
        values = [config.get(setting) for config in configs]
        # The reference has no config.json: it has the settings of the sample.
        if None not in values and values[0] != values[1]:
            raise InputError(
                f"{run.name} was scored with {setting} = {values[0]!r} and {other.name} with "
                f"{values[1]!r}: score both with the same setting."
            )
    metric = read_scores(run.folder).get("monitor", "bleu")
    if metric not in COLUMNS:
        raise InputError(
            f"{run.name} was chosen by {metric}, and compare.py does not know how it is computed: "
            "add it to STATISTICS and COLUMNS of inspection/comparison.py."
        )
    return metric


def read_columns(place: str, record: dict, metric: str) -> list[float]:
    """Return the numbers that a score is computed from, of one record of a predictions file.

    Raises:
        InputError: the record lacks these numbers.
    """
    value = record.get("statistics" if metric == "bleu" else metric)
    columns: list = value if isinstance(value, list) else [value]
    if len(columns) != COLUMNS[metric] or not all(isinstance(n, int | float) for n in columns):
        raise InputError(
            f"{place}: no numbers of {metric}: write the file with evaluate.py, or, instead of "
            "the reference, compare with another run."
        )
    return [float(number) for number in columns]


def compare_lengths(
    examples: Sequence[Example],
    metric: str,
    columns: Sequence[np.ndarray],
    matches: Sequence[np.ndarray],
) -> dict[str, dict]:
    """Return both scores of the records with short, middle and long sources.

    Args:
        examples: gold.
        metric: key of `STATISTICS`.
        columns: the numbers that it is computed from `[records, n]`, of both systems.
        matches: exact matches `[records]` of both.
    """
    sizes = np.array([len(example.source) for example in examples])
    order = np.argsort(sizes, kind="stable")
    ends = [round(share * len(order)) for share in LENGTHS.values()]
    rows = {}
    for name, group in zip(LENGTHS, np.split(order, ends[:-1]), strict=True):
        if len(group):
            first, second = (float(OF_GROUPS[metric](*part[group].T)) for part in columns)
            rows[f"{name}: {sizes[group].min()} to {sizes[group].max()} characters"] = {
                "run_score": first,
                "other_score": second,
                "difference": first - second,
                "run_correct": int(matches[0][group].sum()),
                "other_correct": int(matches[1][group].sum()),
                "gold": len(group),
            }
    return rows
