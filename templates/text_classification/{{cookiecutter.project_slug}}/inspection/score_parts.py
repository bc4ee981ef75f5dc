"""What a score is computed from, record by record, so that compare.py can draw records again."""

from collections.abc import Callable, Sequence

import numpy as np

from core.base.errors import InputError
from core.base.extras import need
from library.label_metrics import (
    RANKING_METRICS,
    count_matches,
    macro_f1,
    matthews,
    score_rankings,
)
from task.records import Example

# Resamples of the bootstrap, and the most numbers to sum in all of them together.
MOST_RESAMPLES = 10_000
NUMBERS_TO_SUM = 4_000_000_000


def read_score(place: str, record: dict) -> float:
    """Return the score by which a record of a predictions file is ranked."""
    if not isinstance(record.get("score"), int | float):
        raise InputError(f"{place}: no score to rank by: write the file with evaluate.py.")
    return float(record["score"])


def score_parts(
    metric: str,
    golds: Sequence[Example],
    predictions: Sequence[tuple[str, ...]],
    ranking_scores: Sequence[float],
    names: Sequence[str],
    positive: str | None,
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return what a metric is computed from, `[rows, columns]`, and how.

    A row is a record, or a group of a ranking.

    Args:
        metric: name of the score.
        golds: the records.
        predictions: labels of each.
        ranking_scores: of each record; used for rankings only.
        names: of all labels.
        positive: the label that a ranking asks for.

    Raises:
        InputError: the metric is none of those below.
    """
    if metric in RANKING_METRICS:
        column = RANKING_METRICS.index(metric)
        ranked = score_rankings(golds, np.array(ranking_scores), positive)
        return np.array([[row[column]] for row in ranked.values()]).reshape(-1, 1), np.mean
    counts = count_matches([gold.labels for gold in golds], predictions, names)
    if metric == "accuracy":
        right = (counts[..., 1] == counts[..., 2]).all(axis=1)
        return right[:, None].astype(float), np.mean
    if metric in ("micro_f1", "f1"):
        own = counts.sum(axis=1) if metric == "micro_f1" else counts[:, names.index(positive)]
        return own, need("comparison").micro_f1
    functions = {"macro_f1": macro_f1, "matthews": matthews}
    if metric not in functions:
        raise InputError(
            f"compare.py does not know how {metric} is computed: let score_parts in "
            "inspection/score_parts.py return what it is computed from, and how."
        )

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        sums = np.stack([column.sum(axis) for column in columns], axis=-1)
        shaped = sums.reshape(*sums.shape[:-1], -1, 3)
        return functions[metric](shaped)

    return counts.reshape(len(golds), -1), statistic


def count_resamples(parts: np.ndarray) -> int:
    """Return the number of resamples: fewer where very many labels make each one slow."""
    return int(np.clip(NUMBERS_TO_SUM // (2 * parts.size), 200, MOST_RESAMPLES))
