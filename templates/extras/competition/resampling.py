"""What the scores of this extra are computed from, so that chance can draw records again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from core.base.errors import InputError
from extras.competition.number_evaluation import read_numbers
from extras.competition.number_scores import ERRORS
from extras.competition.rankings import by_groups

MOST_RESAMPLES = 10_000
SUMMED = ("neg_rmse", "neg_mcrmse", "neg_mae")
CORRELATED = ("pearson", "spearman")


def number_parts(
    metric: str, golds: Sequence[Any], rows: dict[Any, tuple[str, dict]]
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return what a score of numbers is computed from, `[records, columns]`, and how.

    Args:
        metric: the score that decides.
        golds: the records.
        rows: id -> place and record of a predictions file.

    Raises:
        InputError: the score has no interval here, or a record is not a prediction of numbers.
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
    """Return the errors of each record, and minus their mean or its root."""
    if metric == "neg_mae":
        return np.abs(gold - found).mean(axis=1)[:, None], lambda c, axis=-1: -c.mean(axis)
    squares = (gold - found) ** 2
    if metric == "neg_rmse":
        squares = squares.mean(axis=1)[:, None]

    def statistic(*columns: np.ndarray, axis: int = -1) -> np.ndarray:
        return -np.mean([np.sqrt(column.mean(axis)) for column in columns], axis=0)

    return squares, statistic


def correlation(targets: int, of_ranks: bool) -> Callable[..., np.ndarray]:
    """Return the mean correlation of `targets` gold columns with as many predicted ones."""

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
            # 1 - E[(g - p)^2] / E[(g' - p)^2], the latter of gold and prediction drawn apart.
            apart = gold.var(axis) + found.var(axis) + (gold.mean(axis) - found.mean(axis)) ** 2
            together = ((gold - found) ** 2).mean(axis)
            values.append(np.where(apart > 0, 1 - together / np.where(apart > 0, apart, 1), 0.0))
        return np.mean(values, axis=0)

    return statistic


def label_parts(
    metric: str, golds: Sequence[Any], rows: dict[Any, tuple[str, dict]], positive: str | None
) -> tuple[np.ndarray, Callable[..., np.ndarray]]:
    """Return what a score of probabilities is computed from, a mean over records or groups.

    Arguments as in `number_parts`; `positive`: the label that a ranking asks for.

    Raises:
        InputError: the score is no such mean.
    """
    if metric not in ("neg_log_loss", "neg_brier"):
        raise InputError(
            f"compare.py has no interval for {metric}: train with another metric, or compare "
            "scores.json."
        )
    del by_groups, positive
    return np.zeros((len(golds), 1)), np.mean
