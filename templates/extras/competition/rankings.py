"""Scores of rankings: MAP@k and NDCG, of groups of records or of the labels of each record.

For MAP@k, of equal scores the less relevant are ranked first, so the order of the file gains
nothing. NDCG takes the mean over all orders of equal scores, as scikit-learn does.
"""

from collections.abc import Sequence

import numpy as np

NUMBERS_AT_ONCE = 1_000_000


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
    values = ndcg_of_groups(relevance, scores, groups, k)
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else 0.0


def ndcg_of_groups(
    relevance: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], k: int | None = None
) -> np.ndarray:
    """Return the NDCG `[groups]` as in `mean_ndcg`; NaN for a group without anything relevant."""
    number, relevance = number_groups(groups), relevance.astype(float)
    best, ideal = np.lexsort((-scores, number)), np.lexsort((-relevance, number))
    return ndcg_of_ranked(relevance[best], scores[best], relevance[ideal], number[best], k)


def ndcg_of_rows(relevance: np.ndarray, scores: np.ndarray, k: int | None = None) -> np.ndarray:
    """Return the NDCG `[rows]` of items `[rows, items]`; NaN for a row without relevant items."""
    size = max(1, NUMBERS_AT_ONCE // relevance.shape[1])
    parts = []
    for first in range(0, len(relevance), size):
        part = slice(first, first + size)
        gains, own = relevance[part].astype(float), scores[part]
        best, ideal = (np.argsort(-values, axis=1, kind="stable") for values in (own, gains))
        reached, falling, possible = (
            np.take_along_axis(values, order, axis=1).ravel()
            for values, order in ((gains, best), (own, best), (gains, ideal))
        )
        number = np.arange(len(gains)).repeat(gains.shape[1])
        parts.append(ndcg_of_ranked(reached, falling, possible, number, k))
    return np.concatenate(parts)


def ndcg_of_ranked(
    gains: np.ndarray, scores: np.ndarray, ideal: np.ndarray, number: np.ndarray, k: int | None
) -> np.ndarray:
    """Return the NDCG `[groups]` of items whose groups follow each other.

    Args:
        gains: `[items]` by falling scores within each group; `scores`: likewise.
        ideal: `[items]`, the gains by falling gains within each group.
        number: rising, of the group of each item.
        k: as in `mean_ndcg`.
    """
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    ranks = np.arange(len(number)) - np.repeat(firsts, np.diff(firsts, append=len(number)))
    discounts = np.where(ranks < (len(number) if k is None else k), 1 / np.log2(ranks + 2), 0.0)
    changes = np.append(True, scores[1:] != scores[:-1]) | (ranks == 0)
    ties = np.flatnonzero(changes)  # the first of equal scores
    means = np.add.reduceat(gains, ties) / np.diff(ties, append=len(number))
    reached = np.bincount(number[ties], means * np.add.reduceat(discounts, ties))
    possible = np.bincount(number, ideal * discounts)
    return np.where(possible > 0, reached / np.where(possible > 0, possible, 1), np.nan)


def number_groups(groups: Sequence[str | None]) -> np.ndarray:
    """Return the number of the group of each record `[records]`."""
    # Not an array of strings: each would take the room of the longest.
    names = [str(group) for group in groups]
    number = {name: place for place, name in enumerate(sorted({*names}))}
    return np.array([number[name] for name in names], int)


def average_precision_of_groups(
    relevant: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], k: int
) -> np.ndarray:
    """Return the average precision of the first k ranks `[groups]`; NaN: nothing is relevant.

    Args:
        relevant: `[records]` of booleans; others as in `average_precision_at_k`.
        scores: `[records]`.
        groups: of the records.
        k: number of ranks that count.
    """
    number = number_groups(groups)
    order = np.lexsort((relevant, -scores, number))
    number, hits = number[order], relevant[order].astype(float)
    sizes, wanted = np.bincount(number), np.bincount(number, hits)
    ranks = np.arange(len(number)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.cumsum(hits) - np.repeat(np.cumsum(wanted) - wanted, sizes)
    sums = np.bincount(number, np.where(ranks < k, hits * found / (ranks + 1), 0.0))
    return np.where(wanted > 0, sums / np.clip(wanted, 1, k), np.nan)


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
