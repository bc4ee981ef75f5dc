"""The threshold with the best F-beta for all types, and one for each type."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from task.decode import Candidates, Found, Scored, spans_overlap
from task.records import Entity, Example

PASSES = 3  # over the thresholds of all types; the first gains nearly everything


def f_beta(correct: Any, predicted: Any, gold: Any, beta: float) -> Any:
    """Return F-beta of counts, or of arrays of them; 0 if there is nothing to count."""
    weighted = beta**2 * gold + predicted
    return (1 + beta**2) * correct / np.maximum(weighted, 1e-9)


def best_cut(scores: np.ndarray, hits: np.ndarray, gold: int, beta: float, start: float) -> float:
    """Return the threshold with the best F-beta; `start` if no other is better.

    Args:
        scores: of candidates `[n]`, from 0 to 1; `hits`: which of them are correct.
        gold: how many should be found, unreachable ones included.
        beta: 1 weighs precision as recall.
        start: the threshold to begin with; the nearest of several equally good ones wins.
    """
    order = np.argsort(-scores, kind="stable")
    gains = np.stack([hits[order], np.ones(len(order))], axis=1)
    return choose_cut(scores[order], gains, np.zeros(2), gold, beta, start)


def choose_cut(
    scores: np.ndarray, gains: np.ndarray, others: np.ndarray, gold: int, beta: float, start: float
) -> float:
    """Return the threshold of some candidates with the best F-beta of all entities.

    Every threshold that makes a difference is tried.

    Worked example: above 0.65 are 1 correct of 2 (F1 0.5), above 0.2 are 2 of 3 (F1 0.8), above 1
    none (F1 0).

    >>> scores, gains = np.array([0.9, 0.9, 0.4]), np.array([[1, 1], [0, 1], [1, 1]])
    >>> choose_cut(scores, gains, np.zeros(2), gold=2, beta=1.0, start=0.5)
    0.2

    Args:
        scores: of candidates `[n]`, the highest first.
        gains: `[n, 2]`, what each adds to the counts of correct and of predicted entities.
        others: both counts `[2]` without any of these candidates.
        gold: as in `best_cut`, and so are `beta` and `start`.
    """
    last = np.append(scores[1:] < scores[:-1], True)[: len(scores)]  # of each group of equal scores
    values, counts = scores[last], others + np.cumsum(gains, axis=0)[last]
    lower = np.append(values[1:], 0.0)[: len(values)]
    cuts = lower + (values - lower) / 2
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    cuts = np.append(np.where(cuts < values, cuts, lower), (1 + values.max(initial=1.0)) / 2)
    counts = np.append(counts, [others], axis=0)
    found = f_beta(counts[:, 0], counts[:, 1], gold, beta)
    if found.max() <= found[np.sum(values > start) - 1]:  # without any, the last: `others`
        return start
    best = cuts[found == found.max()]
    return float(best[np.argmin(np.abs(best - start))])


def tune_types(
    golds: Sequence[Example], candidates: Candidates, one: float, gold_count: int, beta: float
) -> dict[str, float]:
    """Return a threshold for each type, tuned one after the other, given those of the others.

    Thresholds come before overlaps: a candidate below its threshold displaces no other.

    Args:
        golds: the records with their entities; `gold_count` is the number of these.
        candidates: record id -> every candidate entity with its score from 0 to 1.
        one: the threshold of all types to begin with.
        beta: 1 weighs precision as recall.
    """
    pool = Pool(golds, candidates)
    pool.keep(np.arange(len(pool.scores)), one)
    thresholds = {str(kind): one for kind in np.unique(pool.kinds)}
    rows_of = {kind: np.flatnonzero(pool.kinds == kind) for kind in thresholds}
    for kind in PASSES * [*thresholds]:
        rows = rows_of[kind][np.argsort(-pool.scores[rows_of[kind]], kind="stable")]
        pool.keep(rows, np.inf)
        others = pool.counts.sum(axis=0)
        gains, start = pool.gains(rows), thresholds[kind]
        thresholds[kind] = choose_cut(pool.scores[rows], gains, others, gold_count, beta, start)
        pool.keep(rows, thresholds[kind])
    return thresholds


class Pool:
    """All candidates of a file in groups whose spans overlap; only some of a group can be kept.

    Attributes:
        kinds: type of each candidate `[n]`; `scores`, `hits` as in `best_cut`.
        group_of: the group of each candidate `[n]`; in records that may overlap each is a group.
        active: which candidates are above their thresholds.
        counts: correct and predicted entities of each group `[groups, 2]`.
    """

    def __init__(self, golds: Sequence[Example], candidates: Candidates) -> None:
        self.groups: list[list[int]] = []  # of candidates, best first
        self.conflicts: list[int] = []  # bits: the places in its group that a candidate overlaps
        pairs: list[tuple[Entity, float]] = []
        hits: list[bool] = []
        for gold in golds:
            found = candidates.get(gold.id)
            for group in split_overlapping(found) if found else ():
                self.groups.append([*range(len(pairs), len(pairs) + len(group))])
                pairs += group
                hits += [entity in gold.entities for entity, _ in group]
                self.conflicts += [
                    sum(1 << n for n, (b, _) in enumerate(group) if spans_overlap(a.span, b.span))
                    for a, _ in group
                ]
        self.kinds = np.array([entity.type for entity, _ in pairs])
        self.scores, self.hits = np.array([score for _, score in pairs]), np.array(hits, bool)
        self.group_of = np.repeat(np.arange(len(self.groups)), [*map(len, self.groups)])
        self.single = np.array([len(self.groups[group]) == 1 for group in self.group_of], bool)
        self.active = np.zeros(len(pairs), bool)
        self.counts = np.zeros((len(self.groups), 2))

    def keep(self, rows: np.ndarray, threshold: float) -> None:
        """Apply a threshold to some candidates, and count anew."""
        self.active[rows] = self.scores[rows] > threshold
        single = self.single[rows]
        self.counts[self.group_of[rows[single]]] = self.alone(rows[single])
        for group in np.unique(self.group_of[rows[~single]]).tolist():
            self.count(group)

    def gains(self, rows: np.ndarray) -> np.ndarray:
        """Return what each candidate adds to both counts `[n, 2]`, activated one by one."""
        self.active[rows] = self.single[rows]
        gains = self.alone(rows)
        for place in np.flatnonzero(~self.single[rows]).tolist():
            row = rows[place]
            group, self.active[row] = self.group_of[row], True
            gains[place] = -self.counts[group]
            self.count(group)
            gains[place] += self.counts[group]
        return gains

    def alone(self, rows: np.ndarray) -> np.ndarray:
        """Return both counts `[n, 2]` of groups of one candidate; inactive ones count nothing."""
        active = self.active[rows]
        return np.stack([active & self.hits[rows], active], axis=1).astype(float)

    def count(self, group: int) -> None:
        """Count the candidates of a group that are kept: the best, then what overlaps no other."""
        taken = correct = predicted = 0
        for place, row in enumerate(self.groups[group]):
            if self.active[row] and not taken & self.conflicts[row]:
                taken |= 1 << place
                correct, predicted = correct + int(self.hits[row]), predicted + 1
        self.counts[group] = correct, predicted


def split_overlapping(found: Found) -> list[Scored]:
    """Return the candidates of a record in groups, best first; no two groups overlap."""
    if not found.flat:
        return [[pair] for pair in found.ranked]
    groups: list[list[int]] = []
    end = 0
    for number in sorted(range(len(found.ranked)), key=lambda n: found.ranked[n][0].span):
        start, stop = found.ranked[number][0].span
        if start >= end:
            groups.append([])
        groups[-1].append(number)
        end = max(end, stop)
    return [[found.ranked[number] for number in sorted(group)] for group in groups]
