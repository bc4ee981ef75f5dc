"""The scores of this extra, prepared so that compare.py can draw records again and again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.base.errors import InputError
from extras.competition.drawn import (
    Drawable,
    Score,
    kappa_of,
    mean_of,
    of_sums,
    pearson_of,
    spearman_of,
)
from extras.competition.label_scores import CURVES, label_matrix, make_scores
from extras.competition.list_scores import values_of_groups
from extras.competition.number_evaluation import read_numbers
from extras.competition.number_scores import ERRORS
from extras.competition.rankings import ndcg_of_groups
from extras.competition.settings import Settings

MOST_RESAMPLES, FEW_RESAMPLES, FEWEST_RESAMPLES = 10_000, 500, 200
SQUARED = ("neg_rmse", "neg_mcrmse")
SUMMED = (*SQUARED, "neg_mae")
CORRELATED = {"pearson": pearson_of, "spearman": spearman_of}
OF_COLUMNS = {**CORRELATED, "qwk": kappa_of}
GAINS = ("ndcg", "ndcg_at_k")
MEANS = ("neg_log_loss", "neg_brier", "map_at_k", "top_k_accuracy", *GAINS)
# Records, times labels or targets, whose order counts in each draw, in all draws together.
NUMBERS_TO_RANK = 40_000_000
NUMBERS_OF_CURVES = 400_000_000
# Id -> place and record of a predictions file.
Predicted = dict[Any, tuple[str, dict]]


def compare_numbers(
    metric: str, golds: Sequence[Any], systems: Sequence[Predicted], settings: Settings
) -> tuple[list[Drawable], dict[str, dict]]:
    """Return the score of numbers of two systems, and both scores of each of several targets.

    Args:
        metric: the deciding score.
        golds: the records.
        systems: the predictions files of the two.
        settings: `k` of the table `competition`.

    Raises:
        InputError: the score has no interval here, or a record has no predicted numbers.
    """
    names, groups = golds[0].labels, [example.group for example in golds]
    if settings.competition.is_listwise:
        ranked = [read_columns(metric, golds, system)[:, 0] for system in systems]
        return [list_score(metric, golds, own, settings.competition.k) for own in ranked], {}
    k = settings.competition.k if metric == "ndcg_at_k" else None
    gold = np.array([example.numbers for example in golds])
    found = [read_columns(metric, golds, system) for system in systems]
    rows = {}
    if len(names) > 1 and metric not in GAINS:  # a ranking is by the first target
        for place, name in enumerate(names):
            own = gold[:, [place]]
            pair = [number_score(metric, own, given[:, [place]], groups, k) for given in found]
            first, second = (one.value for one in pair)
            scores = {"run_score": first, "other_score": second}
            rows[name] = {**scores, "difference": first - second}
    return [number_score(metric, gold, given, groups, k) for given in found], rows


def list_score(metric: str, golds: Sequence[Any], scores: np.ndarray, k: int) -> Drawable:
    """Return a score of lists, whose groups are drawn; arguments as in `values_of_groups`."""
    relevance = np.array([example.numbers[0] for example in golds])
    groups = [example.group for example in golds]
    return mean_of(values_of_groups(metric, relevance, scores, groups, k))


def read_columns(metric: str, golds: Sequence[Any], rows: Predicted) -> np.ndarray:
    """Return the predicted numbers, for kappa the grades, `[records, targets]`."""
    names = golds[0].labels
    if metric != "qwk":
        return np.array([read_numbers(*rows[example.id], names) for example in golds])
    try:
        return np.array([[float(rows[e.id][1]["grades"][name]) for name in names] for e in golds])
    except KeyError:
        raise InputError(
            "compare.py has no interval for qwk: a predictions file lacks grades: train with "
            f"another metric, such as {', '.join((*ERRORS, *CORRELATED))}, or compare scores.json."
        ) from None


def number_score(
    metric: str,
    gold: np.ndarray,
    found: np.ndarray,
    groups: Sequence[str | None],
    k: int | None,
) -> Drawable:
    """Return a score of numbers `[records, targets]`; `k` ranks count in a ranking, None: all."""
    if metric in GAINS:
        values = ndcg_of_groups(gold[:, 0], found[:, 0], groups, k)
        return mean_of(values[~np.isnan(values)])
    if metric == "neg_mae":
        return mean_of(-np.abs(gold - found).mean(axis=1))
    if metric in SQUARED:
        squares = (gold - found) ** 2
        squares = squares if metric == "neg_mcrmse" else squares.mean(axis=1)[:, None]
        roots = [of_sums(column[:, None], root_of_mean(len(gold))) for column in squares.T]
        return mean_of_scores([root.score for root in roots], len(gold))
    score = OF_COLUMNS[metric]
    pairs = zip(gold.T, found.T, strict=True)
    return mean_of_scores([score(*pair) for pair in pairs], len(gold))


def root_of_mean(records: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return the negated root of a sum over some records, divided by their number."""
    return lambda total: -np.sqrt(total / records)


def mean_of_scores(scores: Sequence[Score], records: int) -> Drawable:
    """Return the mean of scores of the same records."""
    return Drawable(lambda counts: np.mean([score(counts) for score in scores], axis=0), records)


def label_score(
    metric: str, golds: Sequence[Any], rows: Predicted, labels: Any, settings: Settings
) -> Drawable:
    """Return a score of probabilities.

    Args:
        metric: the deciding score.
        golds: the records.
        rows: of a predictions file.
        labels: from `collect_targets`.
        settings: `k` and `beta` of the table `competition`.

    Raises:
        InputError: a record of the predictions file has no probabilities.
    """
    records = [rows[example.id][1] for example in golds]
    probabilities = np.array([read_probabilities(*rows[e.id], labels) for e in golds])
    gold = label_matrix([example.labels for example in golds], labels.names)
    chosen = [record.get("labels", [record.get("label")]) for record in records]
    found = label_matrix(chosen, labels.names)
    groups, table = [example.group for example in golds], settings.competition
    makers = make_scores(gold, found, probabilities, groups, labels, table)
    if metric.removeprefix("neg_") not in makers:
        raise InputError(
            f"{metric} is no score of this project, or not of these records: it can't be compared."
        )
    if metric.startswith("neg_"):
        own = makers[metric.removeprefix("neg_")]()
        return Drawable(lambda counts: -own.score(counts), own.rows)
    return makers[metric]()


def read_probabilities(place: str, record: dict, labels: Any) -> np.ndarray:
    """Return the probabilities of a record of a predictions file, in the order of the labels."""
    known = record.get("probabilities")
    if not isinstance(known, dict) or not all(name in known for name in labels.names):
        raise InputError(f"{place}: no probabilities: write the file with evaluate.py.")
    return np.array([known[name] for name in labels.names], float)


def count_draws(metric: str, size: int) -> int:
    """Return the number of resamples: fewer where the order of many numbers counts in each.

    Args:
        metric: the deciding score.
        size: records, times targets or labels.
    """
    most = MOST_RESAMPLES if metric in (*SUMMED, *OF_COLUMNS, *MEANS) else FEW_RESAMPLES
    numbers = {"spearman": NUMBERS_TO_RANK, **dict.fromkeys(CURVES, NUMBERS_OF_CURVES)}
    if metric not in numbers:
        return most
    return int(np.clip(numbers[metric] // size, FEWEST_RESAMPLES, most))
