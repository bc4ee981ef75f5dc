"""Strict scores: an entity counts where its span and its type are exactly right; others beside.

Over all records precision, recall and F1 are those of conlleval, and of seqeval in its strict
mode. The two differ in broken tags alone, which only a file can have: conlleval begins an entity
where I stands without B, seqeval drops it. `broken_tags` in [conll] says which it is to be.

Partial overlap is scored as MUC-5 did and nervaluate does: predictions are matched in their order,
each with one gold entity that it overlaps and no other took. `exact` asks for the same span,
`partial` counts any other overlap a half, `type` asks for the same type. Source: Chinchor and
Sundheim 1993, https://aclanthology.org/M93-1007.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from core.data.records import Id
from core.scores.precision_recall import precision_recall_f1
from task.data import Entity, Example
from task.decode import Candidates, is_touched

OVERLAPS = ("exact", "partial", "type")
PASSES = 3  # over the thresholds of all types; the first gains nearly all


def count_matches(gold: Example, predicted: Iterable[Entity]) -> dict[str, np.ndarray]:
    """Count `(correct, predicted, gold)` entities of one record, each once, for each type."""
    right, found = set(gold.entities), set(predicted)
    parts = [Counter(entity.type for entity in own) for own in (right & found, found, right)]
    return {kind: np.array([part[kind] for part in parts]) for kind in parts[1] | parts[2]}


def match_overlaps(gold: Iterable[Entity], predicted: Iterable[Entity], how: str) -> np.ndarray:
    """Return `(credit, predicted, gold)` of one record; `how` is one of `OVERLAPS`."""
    right, found = sorted(set(gold)), sorted(set(predicted))
    free, credit = list(right), 0.0

    def fitness(entity: Entity, one: Entity) -> float:
        if how == "type" and one.type == entity.type:
            distances = np.subtract(one.span, entity.span)
            return 1 / (1 + float(np.abs(distances).sum()))
        return float(how != "type" and one.span == entity.span)

    for entity in found:
        own = [one for one in free if is_touched(one.span, entity.span)]
        if own:
            # Of equally good ones the first.
            best = max(own, key=functools.partial(fitness, entity))
            credit += 1.0 if fitness(entity, best) else 0.5 * (how == "partial")
            free.remove(best)
    return np.array([credit, len(found), len(right)])


def f_beta(correct: Any, predicted: Any, gold: Any, beta: float) -> Any:
    """Return F-beta of counts, or of arrays of them; 0 where there is nothing to count."""
    weighted = beta**2 * gold + predicted
    return (1 + beta**2) * correct / np.maximum(weighted, 1e-9)


def score(
    golds: Sequence[Example], predictions: Mapping[Id, Iterable[Entity]], beta: float = 1.0
) -> dict:
    """Return the scores of a file; a record without predictions has no entities.

    Returns:
        Micro precision, recall and F1, and `f_beta` where beta is not 1; `per_type`, the same for
        each type, and `overlap` for each of `OVERLAPS`.
    """
    totals: dict[str, np.ndarray] = {}
    overlaps = {how: np.zeros(3) for how in OVERLAPS}
    for gold in golds:
        found = list(predictions.get(gold.id, []))
        for kind, counts in count_matches(gold, found).items():
            totals[kind] = totals.get(kind, np.zeros(3, int)) + counts
        for how in OVERLAPS:
            overlaps[how] += match_overlaps(gold.entities, found, how)
    total = sum(totals.values(), np.zeros(3, int))
    correct, predicted, right = total
    best = {"f_beta": float(f_beta(correct, predicted, right, beta)), "beta": beta}
    return {
        **precision_recall_f1(*total),
        **(best if beta != 1 else {}),
        "per_type": {kind: precision_recall_f1(*totals[kind]) for kind in sorted(totals)},
        "overlap": {how: precision_recall_f1(*counts) for how, counts in overlaps.items()},
    }


def rank_candidates(
    golds: Sequence[Example], candidates: Candidates
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return type, score and whether it is right of every candidate `[n]`; the gold entities."""
    rows = [
        (entity.type, value, entity in set(gold.entities))
        for gold in golds
        for entity, value in candidates.get(gold.id, [])
    ]
    kinds, scores, hits = zip(*rows, strict=True) if rows else ((), (), ())
    gold_count = sum(len(set(gold.entities)) for gold in golds)
    return np.array(kinds), np.array(scores), np.array(hits, bool), gold_count


def tune_thresholds(
    golds: Sequence[Example], candidates: Candidates, per_type: bool, beta: float
) -> tuple[float, dict[str, float]]:
    """Return the threshold with the best F-beta of all types, and those of types that beat it.

    Args:
        golds: the records with their entities.
        candidates: record id -> every entity in reach with its score from 0 to 1.
        per_type: then one type after the other gets the threshold with which the F-beta of all is
            best, given those of the others; else none has one of its own.
        beta: 1 weighs precision as recall.
    """
    kinds, scores, hits, gold_count = rank_candidates(golds, candidates)
    one = best_cut(scores, hits, (0, 0), gold_count, beta, 0.5)
    if not per_type or not len(kinds):
        return one, {}
    thresholds = {kind: one for kind in sorted({*kinds})}
    for kind in PASSES * [*thresholds]:
        own = kinds == kind
        kept = scores > np.array([thresholds[name] for name in kinds])
        others = int(hits[kept & ~own].sum()), int((kept & ~own).sum())
        start = thresholds[kind]
        thresholds[kind] = best_cut(scores[own], hits[own], others, gold_count, beta, start)
    return one, thresholds


def best_cut(
    scores: np.ndarray,
    hits: np.ndarray,
    others: tuple[int, int],
    gold: int,
    beta: float,
    start: float,
) -> float:
    """Return the threshold with the best F-beta; `start` where no other is better.

    Every threshold that makes a difference is tried.

    Args:
        scores: of candidates `[n]`, from 0 to 1; `hits` tell which of them are right.
        others: how many of further entities are correct, and how many there are.
        gold: how many should be found, those out of reach too.
        beta: 1 weighs precision as recall.
        start: the threshold to begin with; of several that are best the nearest one wins.
    """

    def quality(correct: Any, kept: Any) -> Any:
        return f_beta(others[0] + correct, others[1] + kept, gold, beta)

    values, where = np.unique(scores, return_inverse=True)
    above = values.size - 1 - where  # 0 is the highest
    correct = np.cumsum(np.bincount(above, hits, values.size))
    kept = np.cumsum(np.bincount(above, minlength=values.size))
    highest = values[::-1]
    lower = np.append(highest[1:], 0.0)
    cuts = lower + (highest - lower) / 2
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    cuts = np.append(np.where(cuts < highest, cuts, lower), (1 + values.max(initial=1.0)) / 2)
    found = np.append(quality(correct, kept), quality(0, 0))
    before = scores > start
    if found.max() <= quality(hits[before].sum(), before.sum()):
        return start
    best = cuts[found == found.max()]
    return float(best[np.argmin(np.abs(best - start))])
