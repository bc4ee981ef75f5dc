"""Scores of rankings: MAP@k and NDCG, of groups of records or of the labels of each record.

For MAP@k, of equal scores the less relevant are ranked first, so the order of the file gains
nothing. NDCG is scikit-learn's, which takes the mean over all orders of equal scores.
"""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import ndcg_score


def ranked_relevance(relevance: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the relevance by falling scores along the last axis; least relevant first on ties."""
    order = np.lexsort((relevance, -scores), axis=-1)
    return np.take_along_axis(relevance, order, axis=-1)


def mean_ndcg(
    relevance: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], k: int | None = None
) -> float:
    """Return the mean normalised discounted cumulative gain of groups; 0 without groups.

    The gain is the relevance itself, the discount log2(rank + 1). Groups without anything relevant
    are left out, and a group of one relevant record has 1.

    Args:
        relevance: `[records]`, none below 0.
        scores: `[records]`; the highest is ranked first.
        groups: of the records.
        k: number of ranks that count; None: all.
    """
    values = []
    for members in by_groups(groups):
        gains = relevance[members]
        if gains.any():
            single = len(members) == 1
            values.append(1.0 if single else ndcg_score([gains], [scores[members]], k=k))
    return float(np.mean(values)) if values else 0.0


def by_groups(groups: Sequence[str | None]) -> list[np.ndarray]:
    """Return the positions of the records of each group."""
    _, number = np.unique(np.array([str(group) for group in groups]), return_inverse=True)
    return np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])


def average_precision_at_k(relevant: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Return the average precision of the first k ranks `[rows]`; 0 without relevant items.

    It is the sum of the precisions at the relevant ranks, divided by the number of relevant items
    or k, whichever is less.

    Args:
        relevant: `[rows, items]` of booleans.
        scores: `[rows, items]`; the highest is ranked first.
        k: number of ranks that count.
    """
    hits = ranked_relevance(relevant, scores)[..., :k]
    precisions = np.cumsum(hits, axis=-1) / np.arange(1, hits.shape[-1] + 1)
    wanted = np.minimum(relevant.sum(axis=-1), k)
    return (precisions * hits).sum(axis=-1) / np.maximum(wanted, 1)


def top_k(relevant: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Return whether a relevant item is among the first k ranks, `[rows]`."""
    return np.asarray(ranked_relevance(relevant, scores)[..., :k].any(axis=-1))
