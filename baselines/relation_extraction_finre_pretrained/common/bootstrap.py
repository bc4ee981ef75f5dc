"""Is one system better than another, or was it the luck of these records?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from common.errors import InputError

NUMBERS_AT_ONCE = 5_000_000


@dataclass(frozen=True)
class Difference:
    """Two scores, first minus second, and the interval of that difference."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    resamples: int

    @property
    def verdict(self) -> str:
        """The first system against the second, in words."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no clear difference"


def micro_f1(correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray, axis=-1) -> np.ndarray:
    """Return F1 of the sums over `axis`; 0 where there is nothing to count."""
    both = predicted.sum(axis) + gold.sum(axis)
    return 2 * correct.sum(axis) / np.maximum(both, 1)


def mean_score(scores: np.ndarray, axis=-1) -> np.ndarray:
    """Return the mean over `axis`: of a score that each record has by itself."""
    return scores.mean(axis)


def paired_bootstrap(
    first: np.ndarray,
    second: np.ndarray,
    statistic: Callable[..., np.ndarray] = micro_f1,
    resamples: int = 10_000,
    seed: int = 1,
    confidence: float = 0.95,
) -> Difference:
    """Compare two systems on the same records, drawn again and again with replacement.

    Args:
        first: what the score is computed from, for each record, shape `[records, columns]`.
        second: the same records in the same order for the other system.
        statistic: gets the columns, each with the drawn records along `axis`, and returns the
            score; `micro_f1` takes `(correct, predicted, gold)`, `mean_score` one column.
        resamples: how often the records are drawn.
        seed: of the draws.
        confidence: the share of the resamples that the interval holds.

    Raises:
        InputError: there are fewer than two records to draw from.
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(f"[records, columns] twice, not {first.shape} and {second.shape}")
    if len(first) < 2:
        raise InputError(
            f"{len(first)} record is too few to compare two systems: score them on a larger file."
        )
    columns = np.concatenate([first, second], axis=1).T

    def difference(*counts: np.ndarray, axis: int) -> np.ndarray:
        half = len(counts) // 2
        return statistic(*counts[:half], axis=axis) - statistic(*counts[half:], axis=axis)

    interval = stats.bootstrap(
        tuple(columns),
        difference,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=resamples,
        batch=max(1, NUMBERS_AT_ONCE // columns.size),
        confidence_level=confidence,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    scores = [float(statistic(*system.T, axis=-1)) for system in (first, second)]
    return Difference(
        *scores, scores[0] - scores[1], float(interval.low), float(interval.high), resamples
    )
