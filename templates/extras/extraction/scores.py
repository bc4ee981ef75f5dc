"""Strict scores: a found item counts if all its spans and names are exactly right.

Scores of triples equal those of relation extraction, scores of events those of event extraction, to
the last digit. Those templates have their metrics in `task/`, which participants may change, and an
extra imports no task. So this module has its own metrics, and a test compares both on random
records.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.data.records import Id
from core.scores.precision_recall import precision_recall_f1
from extras.extraction.records import Example, Item

# The score that chooses the best epoch, as in those templates.
MONITORS = {"triples": "f1", "events": "argument_classification_f1"}
METRICS = {
    "triples": ("f1",),
    "events": (
        "trigger_identification_f1",
        "trigger_classification_f1",
        "argument_identification_f1",
        "argument_classification_f1",
        "event_f1",
    ),
}
# Table -> the metric whose parts it counts, and the part it counts by.
TABLES = {
    "triples": {"per_predicate": ("f1", 0)},
    "events": {
        "per_role": ("argument_classification_f1", 1),
        "per_type": ("argument_classification_f1", 0),
        "per_trigger": ("trigger_classification_f1", 0),
    },
}


def parts_of(items: Iterable[Item], metric: str) -> set[tuple]:
    """Return the distinct parts of items that a metric counts."""
    if metric in ("f1", "event_f1"):
        return {(item.name, item.nodes) for item in items}
    nodes = [
        (item.name, role, span)
        for item in items
        for role, span in item.nodes
        if metric.startswith("trigger") == (role is None)
    ]
    if metric == "trigger_identification_f1":
        return {(span,) for *_, span in nodes}
    if metric == "argument_classification_f1":
        return {*nodes}
    return {(name, span) for name, _, span in nodes}


def gold_and_found(
    gold: Example, found: Iterable[Item], metric: str
) -> tuple[set[tuple], set[tuple]]:
    """Return the gold parts and the found parts of a record.

    Predicates that are not annotated in the record don't count.
    """
    looked_for = gold.annotated
    right, guess = (
        (item for item in items if looked_for is None or item.name in looked_for)
        for items in (gold.items, found)
    )
    return parts_of(right, metric), parts_of(guess, metric)


def count_matches(gold: Example, found: Iterable[Item], metric: str) -> tuple[int, int, int]:
    """Return `(correct, predicted, gold)` of one record."""
    right, guess = gold_and_found(gold, found, metric)
    return len(right & guess), len(guess), len(right)


def score(golds: Sequence[Example], predictions: Mapping[Id, Sequence[Item]], kind: str) -> dict:
    """Return all scores of a file, with the names of the templates.

    Args:
        golds: the records with their items.
        predictions: record id -> items; an absent record has none.
        kind: "triples" or "events".
    """
    totals = {metric: np.zeros(3, int) for metric in METRICS[kind]}
    for gold in golds:
        for metric in METRICS[kind]:
            totals[metric] += count_matches(gold, predictions.get(gold.id, ()), metric)
    numbers = {metric: precision_recall_f1(*counts) for metric, counts in totals.items()}
    result: dict = dict(numbers["f1"]) if kind == "triples" else {}
    if kind == "events":
        result = {metric: row["f1"] for metric, row in numbers.items()}
        result["metrics"] = {name.removesuffix("_f1"): row for name, row in numbers.items()}
    return result | {name: score_labels(golds, predictions, kind, name) for name in TABLES[kind]}


def score_labels(
    golds: Sequence[Example], predictions: Mapping[Id, Sequence[Item]], kind: str, table: str
) -> dict[str, dict]:
    """Return precision, recall and F1 of each label of one of the `TABLES` of a kind."""
    metric, place = TABLES[kind][table]
    counts: tuple[Counter, ...] = Counter(), Counter(), Counter()
    for gold in golds:
        right, found = gold_and_found(gold, predictions.get(gold.id, ()), metric)
        for counter, parts in zip(counts, (right & found, found, right), strict=True):
            counter.update(part[place] for part in parts)
    labels = sorted(counts[1] | counts[2])
    return {label: precision_recall_f1(*(own[label] for own in counts)) for label in labels}
