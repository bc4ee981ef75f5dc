"""Strict scores: an entity is correct if its span and its type are exactly right.

Precision, recall and F1 over all records are those of conlleval, and of seqeval in its strict mode.
The two differ only for broken tags, which only a file can have: at an I without a B, conlleval
starts an entity and seqeval drops it. `broken_tags` in [conll] chooses.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.data.records import Id
from core.scores.precision_recall import precision_recall_f1
from library.overlaps import OVERLAPS, match_overlaps
from library.thresholds import best_cut, f_beta, tune_types
from task.decode import Candidates
from task.records import Entity, Example


def count_matches(gold: Example, predicted: Iterable[Entity]) -> dict[str, np.ndarray]:
    """Count `(correct, predicted, gold)` entities of one record, each once, for each type."""
    right, found = set(gold.entities), set(predicted)
    parts = [Counter(entity.type for entity in own) for own in (right & found, found, right)]
    return {kind: np.array([part[kind] for part in parts]) for kind in parts[1] | parts[2]}


def score(
    golds: Sequence[Example], predictions: Mapping[Id, Iterable[Entity]], beta: float = 1.0
) -> dict:
    """Return the scores of a file; a record without predictions has no entities.

    Returns:
        Micro precision, recall and F1, and `f_beta` where beta is not 1; `per_type`, the same for
        each type; `macro_f1`, the mean over types in gold or predictions; `overlap` by `OVERLAPS`.
    """
    overlaps = {how: np.zeros(3) for how in OVERLAPS}
    matches = []
    for gold in golds:
        found = list(predictions.get(gold.id, []))
        matches.append(count_matches(gold, found))
        for how in OVERLAPS:
            overlaps[how] += match_overlaps(gold.entities, found, how)
    total = sum((counts for own in matches for counts in own.values()), np.zeros(3, int))
    correct, predicted, gold_count = total
    weighted = {"f_beta": float(f_beta(correct, predicted, gold_count, beta)), "beta": beta}
    types = score_types(matches)
    return {
        **precision_recall_f1(*total),
        **(weighted if beta != 1 else {}),
        "macro_f1": sum(own["f1"] for own in types.values()) / max(len(types), 1),
        "per_type": types,
        "overlap": {how: precision_recall_f1(*counts) for how, counts in overlaps.items()},
    }


def score_types(matches: Iterable[Mapping[str, np.ndarray]]) -> dict[str, dict]:
    """Return precision, recall and F1 of each type, from `count_matches` of each record."""
    totals: dict[str, np.ndarray] = {}
    for own in matches:
        for kind, counts in own.items():
            totals[kind] = totals.get(kind, 0) + counts
    return {kind: precision_recall_f1(*totals[kind]) for kind in sorted(totals)}


def list_candidates(
    golds: Sequence[Example], candidates: Candidates
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return score and correctness of each candidate `[n]`, and the number of gold entities.

    Of overlapping candidates only the best is kept, where a record is flat.
    """
    no_threshold = defaultdict[str, float](lambda: -np.inf)
    rows: list[tuple[float, bool]] = []
    for gold in golds:
        right = set(gold.entities)
        ranked = candidates[gold.id].above(no_threshold) if gold.id in candidates else []
        rows += [(value, entity in right) for entity, value in ranked]
    scores, hits = zip(*rows, strict=True) if rows else ((), ())
    gold_count = sum(len(set(gold.entities)) for gold in golds)
    return np.array(scores), np.array(hits, bool), gold_count


def tune_thresholds(
    golds: Sequence[Example], candidates: Candidates, per_type: bool, beta: float
) -> tuple[float, dict[str, float]]:
    """Return the threshold with the best F-beta of all types, and those of single types.

    Args:
        golds: the records with their entities.
        candidates: record id -> every candidate entity with its score from 0 to 1.
        per_type: tune one type after the other, see `tune_types`; False: single types have none.
        beta: 1 weighs precision as recall.
    """
    # With one threshold it makes no difference whether overlaps are resolved before or after it.
    scores, hits, gold_count = list_candidates(golds, candidates)
    one = best_cut(scores, hits, gold_count, beta, 0.5)
    if not per_type or not len(scores):
        return one, {}
    return one, tune_types(golds, candidates, one, gold_count, beta)
