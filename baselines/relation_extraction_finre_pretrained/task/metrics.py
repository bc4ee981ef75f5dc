"""Strict scores: a triple counts when subject, predicate and object are all exactly right."""

from collections.abc import Iterable

import numpy as np

from task.data import Example, Triple


def count_matches(gold: Example, predicted: Iterable[Triple]) -> dict[str, tuple[int, int, int]]:
    """Count `(correct, predicted, gold)` triples of one record for each predicate.

    Args:
        gold: the record; predicates outside its `annotated_predicates` do not count.
        predicted: what was found in it; a triple that is given twice counts once.
    """
    right, found = annotated(gold, gold.triples), annotated(gold, predicted)
    return {
        predicate: tuple(
            sum(triple.predicate == predicate for triple in triples)
            for triples in (right & found, found, right)
        )
        for predicate in sorted({triple.predicate for triple in right | found})
    }


def annotated(gold: Example, triples: Iterable[Triple]) -> set[Triple]:
    """Keep the triples that the record's annotation can judge, each once."""
    looked_for = gold.annotated_predicates
    return {t for t in triples if looked_for is None or t.predicate in looked_for}


def score(golds: list[Example], predictions: dict[str, list[Triple]]) -> dict:
    """Return micro precision, recall and F1, and the same for each predicate.

    Args:
        golds: the records with their triples.
        predictions: record id -> triples; a record that is absent has none.
    """
    totals: dict[str, np.ndarray] = {}
    for gold in golds:
        for predicate, counts in count_matches(gold, predictions.get(gold.id, [])).items():
            totals[predicate] = totals.get(predicate, np.zeros(3, int)) + counts
    return {
        **rates(*sum(totals.values(), np.zeros(3, int))),
        "per_predicate": {predicate: rates(*totals[predicate]) for predicate in sorted(totals)},
    }


def rates(correct: int, predicted: int, gold: int) -> dict[str, float | int]:
    """Return precision, recall and F1 of three counts; each is 0 where it has nothing to count."""
    return {
        "precision": float(correct / predicted) if predicted else 0.0,
        "recall": float(correct / gold) if gold else 0.0,
        "f1": float(2 * correct / (predicted + gold)) if predicted + gold else 0.0,
        "correct": int(correct),
        "predicted": int(predicted),
        "gold": int(gold),
    }


def best_threshold(
    golds: list[Example], candidates: dict[str, list[tuple[Triple, float]]]
) -> float:
    """Return the threshold with the best micro F1 when triples that score above it are kept.

    Every threshold that makes a difference is tried. Of several that are equally good the one
    nearest to 0.5 is taken, and 0.5 itself where none is better.

    Args:
        golds: the records with their triples.
        candidates: record id -> every triple in reach with its score from 0 to 1.
    """
    scores, hits, gold_count = [], [], 0
    for gold in golds:
        best = {}
        for triple, value in candidates.get(gold.id, []):
            best[triple] = max(value, best.get(triple, value))
        right, found = annotated(gold, gold.triples), annotated(gold, best)
        gold_count += len(right)
        scores += [best[triple] for triple in found]
        hits += [triple in right for triple in found]
    if not scores:
        return 0.5

    order = np.argsort(scores)[::-1]
    values, correct = np.array(scores)[order], np.cumsum(np.array(hits)[order])
    # Equal scores stand or fall together: only the last of each group is a place to cut.
    cuts = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    f1 = 2 * correct[cuts] / (cuts + 1 + gold_count)
    lower = np.append(values, 0.0)[cuts + 1]
    thresholds = lower + (values[cuts] - lower) / 2

    kept = int(np.sum(values > 0.5))
    f1_at_half = 2 * correct[kept - 1] / (kept + gold_count) if kept else 0.0
    if f1.max() <= f1_at_half:
        return 0.5
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    thresholds = np.where(thresholds < values[cuts], thresholds, lower)
    equally_good = thresholds[f1 == f1.max()]
    return float(equally_good[np.argmin(np.abs(equally_good - 0.5))])
