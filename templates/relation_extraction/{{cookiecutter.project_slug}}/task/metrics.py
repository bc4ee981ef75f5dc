"""Strict scores: a triple counts when subject, predicate and object are all exactly right."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.data.records import Id
from core.scores.precision_recall import precision_recall_f1
from core.scores.thresholds import best_threshold, precision_recall
from task.decode import Candidates
from task.records import Example, Triple


def count_matches(gold: Example, predicted: Iterable[Triple]) -> dict[str, tuple[int, ...]]:
    """Count `(correct, predicted, gold)` triples of one record for each predicate.

    Args:
        gold: the record; predicates outside its `annotated_predicates` do not count.
        predicted: the triples that were found in it; duplicates count once.
    """
    true, found = keep_annotated(gold, gold.triples), keep_annotated(gold, predicted)
    in_both = Counter(triple.predicate for triple in true & found)
    in_found = Counter(triple.predicate for triple in found)
    in_true = Counter(triple.predicate for triple in true)
    names = sorted(in_found | in_true)
    return {name: (in_both[name], in_found[name], in_true[name]) for name in names}


def keep_annotated(gold: Example, triples: Iterable[Triple]) -> set[Triple]:
    """Return the triples whose predicate was annotated in the record, as a set."""
    known = gold.annotated_predicates
    return {triple for triple in triples if known is None or triple.predicate in known}


def score(golds: Sequence[Example], predictions: Mapping[Id, Iterable[Triple]]) -> dict:
    """Return micro precision, recall and F1, and the same for each predicate.

    Args:
        golds: the records with their triples.
        predictions: record id -> triples; a missing record has none.
    """
    totals: dict[str, np.ndarray] = {}
    for gold in golds:
        for predicate, counts in count_matches(gold, predictions.get(gold.id, [])).items():
            totals[predicate] = totals.get(predicate, np.zeros(3, int)) + counts
    total = sum(totals.values(), np.zeros(3, int))
    return {
        **precision_recall_f1(*total),
        "per_predicate": {name: precision_recall_f1(*totals[name]) for name in sorted(totals)},
    }


def tune_threshold(golds: Sequence[Example], candidates: Candidates) -> dict:
    """Return the `threshold` above which the triples have the best micro F1, and the curve.

    Args:
        golds: the records with their triples.
        candidates: record id -> its candidate triples with scores from 0 to 1.
    """
    scores, hits, gold_count = [], [], 0
    for gold in golds:
        best: dict[Triple, float] = {}  # a predictions file may repeat a triple
        for triple, probability in candidates.get(gold.id, []):
            best[triple] = max(probability, best.get(triple, probability))
        true, found = keep_annotated(gold, gold.triples), keep_annotated(gold, best)
        gold_count += len(true)
        scores += [best[triple] for triple in found]
        hits += [triple in true for triple in found]
    threshold = best_threshold(scores, hits, gold_count)
    curve = precision_recall(scores, hits, gold_count, threshold)
    return {"threshold": threshold, "precision_recall": curve}
