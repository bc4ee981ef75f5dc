"""The threshold with the best F1, and precision and recall at every threshold."""

from collections.abc import Sequence

import numpy as np


def best_threshold(scores: Sequence[float], hits: Sequence[float], gold: int) -> float:
    """Return the threshold with the best F1, if the items that score above it are kept.

    Every threshold that makes a difference is tried. Of equally good ones the nearest to 0.5 is
    returned, and 0.5 itself if none is better.

    Args:
        scores: of all candidates `[items]`, from 0 to 1.
        hits: how right each candidate is `[items]`: 0, 1, or partial credit in between.
        gold: number of items to find, including those that are no candidates.

    Example: without the candidate of 0.2, two of two are right.

    >>> round(best_threshold([0.9, 0.6, 0.2], [1, 1, 0], gold=2), 2)
    0.5
    """
    if not len(scores):
        return 0.5
    values, kept, correct = count_above(scores, hits)
    f1 = 2 * correct / (kept + gold)
    lower = np.append(values[1:], 0.0)
    thresholds = lower + (values - lower) / 2
    if f1.max() <= np.append(0.0, f1)[np.sum(values > 0.5)]:
        return 0.5
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    thresholds = np.where(thresholds < values, thresholds, lower)
    equally_good = thresholds[f1 == f1.max()]
    return float(equally_good[np.argmin(np.abs(equally_good - 0.5))])


def count_above(scores: Sequence[float], hits: Sequence[float]) -> tuple[np.ndarray, ...]:
    """Return the distinct scores, highest first, and for each the items and hits down to it."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    values, correct = np.asarray(scores)[order], np.cumsum(np.asarray(hits)[order])
    # Equal scores are kept or dropped together: only the last of each group can be a cut.
    cuts = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    return values[cuts], cuts + 1, correct[cuts]


def precision_recall(
    scores: Sequence[float], hits: Sequence[float], gold: int, threshold: float, most: int = 40
) -> list[list[float]]:
    """Return rows `[threshold, precision, recall]` for the report.

    The first row is of the items that score above `threshold`. The others are of those that score
    at least as much as each of `most` evenly spread scores. Other arguments as in `best_threshold`.
    """
    if not len(scores):
        return []
    values, kept, correct = (np.append(0, numbers) for numbers in count_above(scores, hits))
    places = np.unique(np.linspace(1, len(values) - 1, most).astype(int))
    places = np.append(np.sum(values[1:] > threshold), places)
    rows = np.stack([values, correct / np.maximum(kept, 1), correct / max(gold, 1)], axis=1)[places]
    rows[0, 0] = threshold
    return rows.round(4).tolist()
