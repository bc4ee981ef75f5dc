"""Scores of drawn records: each takes how often every record is drawn, and draws are many.

A score is prepared once, which sorts what is to be ranked. A draw then costs sums over the records:
nothing is sorted, and no record is looked at in Python. The score of a file is that of one draw
in which each record occurs once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

# From how often each row is drawn, `[draws, rows]`, to a score of each draw.
Score = Callable[[np.ndarray], np.ndarray]
NUMBERS_AT_ONCE = 4_000_000
CONSTANT = 1e-12  # a variance below this share of the squares is rounding


@dataclass(frozen=True)
class Drawable:
    """A score of drawn rows; `rows` are records, or groups of a ranking."""

    score: Score
    rows: int

    @property
    def value(self) -> float:
        """The score of all rows, each of them once."""
        return float(self.score(np.ones((1, self.rows)))[0])


def of_sums(columns: np.ndarray, statistic: Callable[..., np.ndarray]) -> Drawable:
    """Return a score of the sums of columns `[rows, columns]`.

    Args:
        columns: of each row.
        statistic: from the sums of each column, `[draws]` each, to the score `[draws]`.
    """
    rows = np.ascontiguousarray(columns.T, float)

    def score(counts: np.ndarray) -> np.ndarray:
        # Not by `@`, whose threads wait for each other longer than they compute.
        return statistic(*(np.einsum("dr,r->d", counts, row) for row in rows))

    return Drawable(score, len(columns))


def mean_of(values: np.ndarray, counted: np.ndarray | None = None) -> Drawable:
    """Return the mean of values `[rows]`; 0 where none is drawn.

    Args:
        values: of each row.
        counted: `[rows]` of booleans: the others are left out; None: all count.
    """
    counted = np.ones(len(values)) if counted is None else counted.astype(float)
    columns = np.stack([np.where(counted, values, 0.0), counted], axis=1)
    return of_sums(columns, lambda total, count: total / np.maximum(count, 1))


# ------------------------------------------------------------------------- curves


@dataclass(frozen=True)
class Ranked:
    """Some labels, each with its records by falling probability, cut where a hit is.

    Attributes:
        parts: `[parts, records]` of 1: the records of each part, label after label. A part is of
            equal probabilities with a hit among them, or of all between two such parts.
        hits: `[parts with hits, records]` of 1: the hits of each.
        places: of the parts with hits, among all.
        firsts: where the parts with hits of each label begin, for labels with hits.
    """

    parts: sparse.csr_array
    hits: sparse.csr_array
    places: np.ndarray
    firsts: np.ndarray
    label: np.ndarray


def rank_labels(hits: np.ndarray, scores: np.ndarray) -> Ranked:
    """Return labels with their records by falling probability; both `[records, labels]`."""
    records = len(hits)
    order = np.argsort(-scores, axis=0, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=0).T.ravel()
    hit = np.take_along_axis(hits, order, axis=0).T.ravel()
    order = order.T.ravel()
    first_of_label = np.arange(len(order)) % records == 0
    starts = np.flatnonzero(first_of_label | np.append(True, ordered[1:] != ordered[:-1]))
    has_hit = np.add.reduceat(hit, starts, dtype=int) > 0
    begins = has_hit | np.append(True, has_hit[:-1]) | first_of_label[starts]
    starts, places = starts[begins], np.flatnonzero(has_hit[begins])
    ends = np.append(starts, len(order))
    parts = sparse.csr_array((np.ones(len(order)), order, ends), (len(starts), records))
    counts = np.add.reduceat(hit, starts, dtype=int)[places]
    pointers = np.append(0, np.cumsum(counts))
    own = sparse.csr_array((np.ones(counts.sum()), order[hit], pointers), (len(places), records))
    label = starts[places] // records
    return Ranked(parts, own, places, np.flatnonzero(np.diff(label, prepend=-1)), label)


def score_curves(ranked: Ranked, counts: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of a score over labels `[draws]`, and over how many labels it is.

    A label that all drawn records have, or none, has no score.

    Args:
        ranked: from `rank_labels`, with some hits.
        counts: `[draws, records]`.
        name: "roc_auc" or "pr_auc".
    """
    drawn = np.ascontiguousarray(counts.T)
    total, firsts = drawn.sum(axis=0), ranked.firsts
    sums = ranked.parts @ drawn
    inside = sums[ranked.places]
    above = np.cumsum(sums, axis=0)[ranked.places] - inside - ranked.label[:, None] * total
    hits = ranked.hits @ drawn
    all_hits = np.add.reduceat(hits, firsts, axis=0)
    sizes = np.diff(firsts, append=len(hits))
    before = (np.cumsum(all_hits, axis=0) - all_hits).repeat(sizes, axis=0)
    hits_above = np.cumsum(hits, axis=0) - hits - before
    misses = total - all_hits
    if name == "roc_auc":  # of a hit and a miss, the hit is above; of equal ones, half
        below = misses.repeat(sizes, axis=0) - (above - hits_above) - (inside - hits) / 2
        values, pairs = hits * below, all_hits * misses
    else:  # the precision at each hit
        values = hits * (hits_above + hits) / np.maximum(above + inside, 1)
        pairs = all_hits
    defined = (all_hits > 0) & (misses > 0)
    scores = np.add.reduceat(values, firsts, axis=0) / np.where(defined, pairs, 1)
    return np.where(defined, scores, 0.0).sum(axis=0), defined.sum(axis=0)


def curve_of(
    name: str, hits: np.ndarray, scores: np.ndarray, counted: np.ndarray, undefined: float
) -> Drawable:
    """Return the mean of ROC-AUC or PR-AUC over the labels that some but not all records have.

    Args:
        name: "roc_auc" or "pr_auc".
        hits: `[records, labels]` of booleans; `scores`: their probabilities.
        counted: `[records]` of booleans: the others are left out.
        undefined: the score where no label has one.
    """
    size = max(1, NUMBERS_AT_ONCE // len(hits))
    blocks = [
        rank_labels(hits[counted, first : first + size], scores[counted, first : first + size])
        for first in range(0, hits.shape[1], size)
        if hits[counted, first : first + size].any()
    ]

    def score(counts: np.ndarray) -> np.ndarray:
        drawn = counts[:, counted]
        found = [score_curves(block, drawn, name) for block in blocks]
        total, labels = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0)
        return np.where(labels > 0, total / np.maximum(labels, 1), undefined) + 0 * counts[:, 0]

    return Drawable(score, len(hits))


# ------------------------------------------------------------------- correlations


def pearson_of(gold: np.ndarray, found: np.ndarray) -> Score:
    """Return the linear correlation of two columns `[rows]`; 0 where either is constant."""
    # Centred, so that large numbers lose no digits.
    gold, found = gold - gold.mean(), found - found.mean()
    columns = np.stack([gold, found, gold**2, found**2, gold * found], axis=1)

    def statistic(*sums: np.ndarray) -> np.ndarray:
        mean_gold, mean_found, gold_squares, found_squares, products = (s / len(gold) for s in sums)
        one, other = gold_squares - mean_gold**2, found_squares - mean_found**2
        varies = (one > CONSTANT * gold_squares) & (other > CONSTANT * found_squares)
        return correlate(products - mean_gold * mean_found, one, other, varies)

    return of_sums(columns, statistic).score


def correlate(
    covariance: np.ndarray, one: np.ndarray, other: np.ndarray, varies: Any
) -> np.ndarray:
    """Return the correlation from the covariance and both variances; 0 where nothing varies."""
    return np.where(varies, covariance / np.sqrt(np.where(varies, one * other, 1.0)), 0.0)


def spearman_of(gold: np.ndarray, found: np.ndarray) -> Score:
    """Return the correlation of the ranks of two columns `[rows]`; equal numbers share a rank."""
    groups = [np.unique(column, return_inverse=True)[1] for column in (gold, found)]
    rows = np.arange(len(gold))
    members = [sparse.csr_array((np.ones(len(gold)), (group, rows))) for group in groups]
    middle = (len(gold) + 1) / 2

    def score(counts: np.ndarray) -> np.ndarray:
        drawn = np.ascontiguousarray(counts.T)
        ranks, variances = [], []
        for member in members:
            sums = member @ drawn
            own = np.cumsum(sums, axis=0) - (sums - 1) / 2 - middle  # around the mean
            variances.append(np.einsum("gd,gd,gd->d", sums, own, own))
            ranks.append(own)
        first, second = (own[group] for own, group in zip(ranks, groups, strict=True))
        covariance = np.einsum("rd,rd,rd->d", drawn, first, second)
        one, other = variances
        return correlate(covariance, one, other, (one > 0) & (other > 0))

    return score


def kappa_of(gold: np.ndarray, found: np.ndarray) -> Score:
    """Return the quadratic weighted kappa of two columns of grades `[rows]`; 0 if undefined."""
    gold, found = gold - gold.mean(), found - gold.mean()
    columns = np.stack([gold, found, gold**2, found**2, (gold - found) ** 2], axis=1)

    def statistic(*sums: np.ndarray) -> np.ndarray:
        means = [own / len(gold) for own in sums]
        # 1 - E[(g - p)^2] / E[(g' - p)^2], with g' drawn independently of p.
        apart = means[2] + means[3] - 2 * means[0] * means[1]
        varies = apart > CONSTANT * (means[2] + means[3])
        return np.where(varies, 1 - means[4] / np.where(varies, apart, 1), 0.0)

    return of_sums(columns, statistic).score
