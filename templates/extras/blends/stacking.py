"""Fit a stack by scikit-learn: logistic regression for what is right, ridge for numbers."""

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from extras.blends.stack import (
    LOWEST,
    ONE_LABEL,
    Fit,
    Scores,
    Stack,
    features,
    label_features,
    log_odds,
    names_of,
)

STEPS = 1000


def fit_stack(kind: str, records: Sequence[Sequence[Scores]], gold: Sequence[Mapping]) -> Stack:
    """Fit a stack on the predictions of several runs.

    Args:
        kind: as in `Stack`.
        records: of each record, the scores of each run.
        gold: of each record, name -> 1 if it is right, or 0, or its value. Names without a gold
            value are left out.
    """
    if kind == "one_label":
        return Stack(kind, {ONE_LABEL: fit_labels(records, gold)})
    fits = {}
    for group in records[0][0]:
        rows: list[list[float]] = []
        targets: list[float] = []
        for parts, known in zip(records, gold, strict=True):
            for name in (name for name in names_of(parts, group) if name in known):
                rows.append(features(parts, group, name, kind))
                targets.append(known[name])
        if kind == "numbers":
            fits[group] = fit_numbers(np.array(rows), np.array(targets))
        else:
            fits[group] = fit_right(np.array(rows), np.array(targets), len(records[0]))
    return Stack(kind, fits)


def fit_numbers(rows: np.ndarray, targets: np.ndarray) -> Fit:
    """Fit ridge regression, whose penalty follows the scale of the numbers."""
    model = Ridge(alpha=max(float(targets.var()), LOWEST)).fit(rows, targets)
    return Fit([model.coef_.tolist()], [float(model.intercept_)], [0])


def fit_right(rows: np.ndarray, targets: np.ndarray, runs: int) -> Fit:
    """Fit which rows are right; rows that are all right, or all wrong, give the runs' mean."""
    if len(np.unique(targets)) < 2:
        return Fit([[1 / runs, log_odds(0.0) / runs] * runs], [0.0], [0, 1])
    return logistic(rows, targets.astype(int))


def fit_labels(records: Sequence[Sequence[Scores]], gold: Sequence[Mapping]) -> Fit:
    """Fit which of all labels is right; records whose gold label no run knows are left out."""
    names = [name for group in records[0][0].values() for name in group]
    rows, targets = [], []
    for parts, known in zip(records, gold, strict=True):
        shares = [known.get(name, 0.0) for name in names]
        if max(shares) > 0:
            rows.append(label_features(parts))
            targets.append(int(np.argmax(shares)))
    if len(set(targets)) < 2:
        runs, count = len(records[0]), len(names)
        return Fit((np.tile(np.eye(count), runs) / runs).tolist(), [0.0] * count, [*range(count)])
    return logistic(np.array(rows), np.array(targets))


def logistic(rows: np.ndarray, targets: np.ndarray) -> Fit:
    """Return scikit-learn's logistic regression with its usual penalty."""
    model = LogisticRegression(max_iter=STEPS).fit(rows, targets)
    return Fit(model.coef_.tolist(), model.intercept_.tolist(), model.classes_.tolist())
