"""Precision, recall and F1 of counts, and the threshold that makes F1 largest."""

from collections.abc import Sequence

import numpy as np


def rates(correct: float, predicted: int, gold: int) -> dict[str, float | int]:
    """Return precision, recall and F1 of three counts; each is 0 where it has nothing to count."""
    return {
        "precision": float(correct / predicted) if predicted else 0.0,
        "recall": float(correct / gold) if gold else 0.0,
        "f1": float(2 * correct / (predicted + gold)) if predicted + gold else 0.0,
        "correct": int(correct) if correct == int(correct) else round(float(correct), 4),
        "predicted": int(predicted),
        "gold": int(gold),
    }


def micro_f1(
    correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray, axis: int = -1
) -> np.ndarray:
    """Return F1 of the sums over `axis`; 0 where there is nothing to count."""
    both = predicted.sum(axis) + gold.sum(axis)
    return 2 * correct.sum(axis) / np.maximum(both, 1)


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
    order = np.argsort(-np.asarray(scores), kind="stable")
    values, correct = np.asarray(scores)[order], np.cumsum(np.asarray(hits)[order])
    # Equal scores stand or fall together: only the last of each group is a place to cut.
    cuts = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    f1 = 2 * correct[cuts] / (cuts + 1 + gold)
    lower = np.append(values, 0.0)[cuts + 1]
    thresholds = lower + (values[cuts] - lower) / 2

    kept = int(np.sum(values > 0.5))
    f1_at_half = 2 * correct[kept - 1] / (kept + gold) if kept else 0.0
    if f1.max() <= f1_at_half:
        return 0.5
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    thresholds = np.where(thresholds < values[cuts], thresholds, lower)
    equally_good = thresholds[f1 == f1.max()]
    return float(equally_good[np.argmin(np.abs(equally_good - 0.5))])


def print_rates(title: str, rows: dict[str, dict]) -> None:
    """Print precision, recall and F1 of labels, under a title that says what a label is."""
    print(f"{title:<32}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for label, row in rows.items():
        numbers = "".join(f"{row[name]:>10.4f}" for name in ("precision", "recall", "f1"))
        print(f"{label:<32}{numbers}{row['gold']:>8}")
