"""Masked accuracy and perplexity, from sums over predicted tokens."""

import numpy as np

LARGEST = 700.0  # largest argument of exp: JSON has no infinity
# Every metric takes all three sums and an axis, because compare.py computes it for many draws of
# texts at once.


def accuracy(
    correct: np.ndarray, predicted: np.ndarray, surprise: np.ndarray, axis=-1
) -> np.ndarray:
    """Return the share of tokens that the model finds likeliest; 0 if nothing is predicted."""
    return correct.sum(axis) / np.maximum(predicted.sum(axis), 1)


def perplexity(
    correct: np.ndarray, predicted: np.ndarray, surprise: np.ndarray, axis=-1
) -> np.ndarray:
    """Return exp of the mean -log p: the number of equally likely tokens to choose from."""
    mean = surprise.sum(axis) / np.maximum(predicted.sum(axis), 1)
    return np.exp(np.minimum(mean, LARGEST))


def score(columns: np.ndarray) -> dict[str, float | int]:
    """Return all scores.

    Args:
        columns: `[texts, 3]`: correct and predicted tokens, the sum of -log p.
    """
    correct, predicted, surprise = columns.T
    return {
        "predicted_tokens": int(predicted.sum()),
        "accuracy": float(accuracy(correct, predicted, surprise)),
        "perplexity": float(perplexity(correct, predicted, surprise)),
    }
