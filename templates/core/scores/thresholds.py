"""The threshold with the best F1, and precision and recall at every threshold."""

from collections.abc import Sequence

import numpy as np


def best_threshold(scores: Sequence[float], hits: Sequence[float], gold: int) -> float:
    """Return the threshold with the best F1 when what scores above it is kept.

    Every threshold that makes a difference is tried. Of several that are equally good the one
    nearest to 0.5 is taken, and 0.5 itself where none is better.

    Args:
        scores: of everything in reach `[items]`, from 0 to 1.
        hits: how right each of them is `[items]`, 0 or 1 or what the metric gives in between.
        gold: how many items should be found, those out of reach too.
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
    """Return the distinct scores, highest first, how many are at least as high, and their hits."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    values, correct = np.asarray(scores)[order], np.cumsum(np.asarray(hits)[order])
    # Equal scores stand or fall together: only the last of each group is a place to cut.
    cuts = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    return values[cuts], cuts + 1, correct[cuts]


def precision_recall(
    scores: Sequence[float], hits: Sequence[float], gold: int, threshold: float, most: int = 40
) -> list[list[float]]:
    """Return `[threshold, precision, recall]` of what is kept, for the report.

    The first row is of what scores above `threshold`, others of what scores at least as much as
    each of `most` scores, evenly spread. Other arguments as in `best_threshold`.
    """
    if not len(scores):
        return []
    values, kept, correct = (np.append(0, numbers) for numbers in count_above(scores, hits))
    places = np.unique(np.linspace(1, len(values) - 1, most).astype(int))
    places = np.append(np.sum(values[1:] > threshold), places)
    rows = np.stack([values, correct / np.maximum(kept, 1), correct / max(gold, 1)], axis=1)[places]
    rows[0, 0] = threshold
    return rows.round(4).tolist()
