"""What the scores of this extra are computed from, so that compare.py can draw records again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from core.base.errors import InputError
from extras.competition.label_scores import label_matrix, score_matrices
from extras.competition.number_evaluation import read_numbers
from extras.competition.number_scores import ERRORS
from extras.competition.rankings import by_groups
from extras.competition.settings import Settings

MOST_RESAMPLES, FEW_RESAMPLES = 10_000, 500
RANKED = ("map_at_k", "ndcg", "ndcg_at_k")
SUMMED = ("neg_rmse", "neg_mcrmse", "neg_mae")
CORRELATED = ("pearson", "spearman")


def number_parts(
    metric: str, golds: Sequence[Any], rows: dict[Any, tuple[str, dict]]
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return the values behind a score of numbers, `[records, columns]`, and the statistic.

    Args:
        metric: the deciding score.
        golds: the records.
        rows: id -> place and record of a predictions file.

    Raises:
        InputError: the score has no interval here, or a record has no predicted numbers.
    """
    names = golds[0].labels
    gold = np.array([example.numbers for example in golds])
    found = np.array([read_numbers(*rows[example.id], names) for example in golds])
    if metric in SUMMED:
        return error_parts(metric, gold, found)
    if metric in CORRELATED:
        columns = np.concatenate([gold, found], axis=1)
        return columns, correlation(len(names), metric == "spearman")
    if metric == "qwk" and all("grades" in rows[example.id][1] for example in golds):
        grades = [rows[example.id][1]["grades"] for example in golds]
        found = np.array([[float(row[name]) for name in names] for row in grades])
        return np.concatenate([gold, found], axis=1), kappa_of(len(names))
    raise InputError(
        f"compare.py has no interval for {metric}: train with another metric, such as "
        f"{', '.join((*ERRORS, *CORRELATED))}, or compare scores.json."
    )


def error_parts(
    metric: str, gold: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return the errors of each record, and the statistic: their negated mean or its root."""
    if metric == "neg_mae":
        return np.abs(gold - found).mean(axis=1)[:, None], lambda c, axis=-1: -c.mean(axis)
    squares = (gold - found) ** 2
    if metric == "neg_rmse":
        squares = squares.mean(axis=1)[:, None]

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        return -np.mean([np.sqrt(column.mean(axis)) for column in columns], axis=0)

    return squares, statistic


def correlation(targets: int, of_ranks: bool) -> Callable[..., np.ndarray]:
    """Return the mean correlation of gold columns with the same number of predicted ones."""

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        if of_ranks:
            columns = tuple(stats.rankdata(column, axis=axis) for column in columns)
        centred = [column - column.mean(axis, keepdims=True) for column in columns]
        values = []
        for gold, found in zip(centred[:targets], centred[targets:], strict=True):
            below = np.sqrt((gold**2).sum(axis) * (found**2).sum(axis))
            above = (gold * found).sum(axis)
            values.append(np.where(below > 0, above / np.where(below > 0, below, 1), 0.0))
        return np.mean(values, axis=0)

    return statistic


def kappa_of(targets: int) -> Callable[..., np.ndarray]:
    """Return the mean quadratic weighted kappa of gold and predicted grades."""

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        values = []
        for gold, found in zip(columns[:targets], columns[targets:], strict=True):
            # 1 - E[(g - p)^2] / E[(g' - p)^2], with g' drawn independently of p.
            apart = gold.var(axis) + found.var(axis) + (gold.mean(axis) - found.mean(axis)) ** 2
            together = ((gold - found) ** 2).mean(axis)
            values.append(np.where(apart > 0, 1 - together / np.where(apart > 0, apart, 1), 0.0))
        return np.mean(values, axis=0)

    return statistic


def label_parts(
    metric: str,
    golds: Sequence[Any],
    rows: dict[Any, tuple[str, dict]],
    labels: Any,
    settings: Settings,
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return the values behind a score of probabilities, and the statistic.

    A row is a record, or a group of a ranking.

    Args:
        metric: the deciding score.
        golds: the records.
        rows: id -> place and record of a predictions file.
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
    none, table = [None] * len(golds), settings.competition
    if metric in RANKED and golds[0].group is not None and labels.positive is not None:
        groups = by_groups([example.group for example in golds])
        groups = [own for own in groups if any(labels.positive in golds[n].labels for n in own)]
        values = [
            score_matrices(
                gold[own], found[own], probabilities[own], ["group"] * len(own), labels, table
            )[metric]
            for own in groups
        ]
        return np.array(values).reshape(-1, 1), np.mean

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        drawn = np.stack(columns, axis=-1)  # [..., records, columns]
        values = []
        for rows in drawn.reshape(-1, *drawn.shape[-2:]):
            own_gold, own_found, own_probabilities = np.split(rows, 3, axis=1)
            hits = own_gold > 0, own_found > 0
            values.append(score_matrices(*hits, own_probabilities, none, labels, table)[metric])
        return np.array(values).reshape(drawn.shape[:-2])

    return np.concatenate([gold, found, probabilities], axis=1), statistic


def read_probabilities(place: str, record: dict, labels: Any) -> np.ndarray:
    """Return the probabilities of a record of a predictions file, in the order of the labels."""
    known = record.get("probabilities")
    if not isinstance(known, dict) or not all(name in known for name in labels.names):
        raise InputError(f"{place}: no probabilities: write the file with evaluate.py.")
    return np.array([known[name] for name in labels.names], float)


def count_draws(metric: str) -> int:
    """Return the number of resamples: few where each of them is scored anew."""
    return MOST_RESAMPLES if metric in (*SUMMED, *CORRELATED, "qwk") else FEW_RESAMPLES
