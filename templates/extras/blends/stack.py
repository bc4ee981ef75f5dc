"""A stack: a linear model that turns the scores of several runs into new ones.

Each run's scores are features: log-odds for labels, spans, triples and answers, logs of
probabilities where a record has exactly one label, plain values for numbers. `stacking.py` fits it
by scikit-learn. It is stored as plain numbers, so no pickle is read.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# Probabilities nearer to 0 or 1 than this count as this far away: one record can't decide a fit.
LOWEST = 1e-6
# The name of the only fit where a record has exactly one label.
ONE_LABEL = "labels"
# Of one record: group -> name -> score. Each group has a fit of its own.
Scores = Mapping[str, Mapping[Hashable, float]]


@dataclass(frozen=True)
class Fit:
    """A linear model in the form of scikit-learn.

    Attributes:
        coefficients: `[rows, features]`; one row for two classes, and for numbers.
        intercepts: `[rows]`.
        classes: what the rows, or the two classes of the only row, mean.
    """

    coefficients: list[list[float]]
    intercepts: list[float]
    classes: list[int]

    def values(self, features: np.ndarray) -> np.ndarray:
        """Return the linear values `[records, rows]` of `[records, features]`."""
        return features @ np.asarray(self.coefficients).T + np.asarray(self.intercepts)

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the probability of each class, `[records, classes]`."""
        values = self.values(features)
        if values.shape[1] == 1:  # the softmax of a value and 0 is the logistic function
            values = np.hstack([np.zeros_like(values), values])
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Stack:
    """The fits of a stack.

    Attributes:
        kind: "each": every name is right or wrong by itself; "one_label": exactly one group is
            right; "numbers": names have values.
        fits: of each group, or of all together.
    """

    kind: str
    fits: dict[str, Fit]

    @classmethod
    def of(cls, saved: dict) -> "Stack":
        """Return a stack from `as_dict`."""
        return cls(saved["kind"], {name: Fit(**fit) for name, fit in saved["fits"].items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the stack as config.json holds it."""
        return asdict(self)

    def blend(self, parts: Sequence[Scores]) -> dict[str, dict[Hashable, float]]:
        """Return the new scores of one record from those of each run."""
        if self.kind == "one_label":
            shares = self.label_shares(parts)
            return {
                group: dict.fromkeys(parts[0][group], share)
                for group, share in zip(parts[0], shares, strict=True)
            }
        found = {}
        for group in parts[0]:
            names = names_of(parts, group)
            rows = np.array([features(parts, group, name, self.kind) for name in names])
            values = self.apply(group, rows) if names else []
            found[group] = dict(zip(names, values, strict=True))
        return found

    def label_shares(self, parts: Sequence[Scores]) -> list[float]:
        """Return the probability of each label of one record, in the order of the groups.

        A label that none of the fitted records has keeps the mean of the runs, and the fitted ones
        share the rest.
        """
        fit = self.fits[ONE_LABEL]
        rows = [[value for group in part.values() for value in group.values()] for part in parts]
        shares = np.mean(rows, axis=0)
        fitted = fit.probabilities(np.array([label_features(parts)]))[0]
        others = np.delete(shares, fit.classes).sum()
        shares[fit.classes] = fitted * max(1 - others, 0.0)
        return shares.tolist()

    def apply(self, group: str, rows: np.ndarray) -> list[float]:
        """Return what the fit of a group says of some rows of features."""
        fit = self.fits[group]
        values = fit.values(rows)[:, 0] if self.kind == "numbers" else fit.probabilities(rows)[:, 1]
        return values.tolist()


def names_of(parts: Sequence[Scores], group: str) -> list[Hashable]:
    """Return all names of a group that some run scores, in the order of the runs."""
    return list(dict.fromkeys(name for part in parts for name in part[group]))


def features(parts: Sequence[Scores], group: str, name: Hashable, kind: str) -> list[float]:
    """Return the features of a name: of each run its log-odds, and whether the run lacks it."""
    scores = [part[group].get(name) for part in parts]
    if kind == "numbers":
        return [float("nan") if score is None else score for score in scores]
    pairs = [(0.0, 1.0) if score is None else (log_odds(score), 0.0) for score in scores]
    return [value for pair in pairs for value in pair]


def label_features(parts: Sequence[Scores]) -> list[float]:
    """Return the features of a record with exactly one label: of each run all log probabilities."""
    rows = [[*group.values()] for part in parts for group in part.values()]
    return np.log(np.clip(np.concatenate(rows), LOWEST, 1.0)).tolist()


def log_odds(share: float, lowest: float = LOWEST) -> float:
    """Return the log-odds of a probability, which counts as at least `lowest` from 0 and 1."""
    clipped = min(max(share, lowest), 1 - lowest)
    return float(np.log(clipped) - np.log1p(-clipped))
