"""Scores of events: CasEE's four, DuEE's overlap of characters, and whole events.

CasEE counts distinct items in each record: trigger identification `span`, trigger classification
`(type, span)`, argument identification `(type, span)`, argument classification
`(type, role, span)`. A span must be exactly right. Source: Sheng et al. 2021,
https://aclanthology.org/2021.findings-acl.14.

DuEE counts distinct `(type, role, text)` in each record. A predicted argument earns the character
F1 with the most similar gold argument of its type and role.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

import numpy as np

from core.data.records import Id
from core.scores.precision_recall import precision_recall_f1
from library.graph import Graph, Mention, eased, events_at, mentions_of
from task.records import Event, Example
from task.settings import Metric

METRICS = get_args(Metric)
QUANTILES = np.linspace(0.04, 0.96, 24)  # of `eased` of all mentions: the thresholds to try
# The metric whose items a table counts, and the part of an item that is its label.
TABLES = {
    "per_role": ("argument_classification", 1),
    "per_type": ("argument_classification", 0),
    "per_trigger": ("trigger_classification", 0),
}


def item_of(mention: Mention, text: str, metric: str) -> tuple | None:
    """Return the item that a metric counts for a mention; None: it doesn't count the mention."""
    kind, role, span = mention
    counts_triggers, is_trigger = metric.startswith("trigger"), role is None
    if counts_triggers != is_trigger:
        return None
    return {
        "trigger_identification": (span,),
        "trigger_classification": (kind, span),
        "argument_identification": (kind, span),
        "argument_classification": (kind, role, span),
        "duee": (kind, role, text[slice(*span)].lower()),
    }[metric]


def items_of(events: Iterable[Event], text: str, metric: str) -> set[tuple]:
    """Return the distinct items of some events."""
    items = (item_of(mention, text, metric) for mention in mentions_of(events))
    return {item for item in items if item is not None}


def credit(item: tuple, gold: set[tuple], metric: str) -> float:
    """Return what a predicted item earns, from 0 to 1."""
    if metric != "duee":
        return float(item in gold)
    return max((character_f1(item[2], one[2]) for one in gold if one[:2] == item[:2]), default=0.0)


def character_f1(one: str, two: str) -> float:
    """Return 2 shared characters / (characters of both), repeated ones included.

    >>> character_f1("abb", "abc")  # a and b are shared
    0.6666666666666666
    """
    return 2 * (Counter(one) & Counter(two)).total() / (len(one) + len(two))


def count_matches(gold: Example, predicted: Iterable[Event], metric: str) -> tuple:
    """Return `(correct, predicted, gold)` of one record; `correct` is the sum of the credits."""
    right = items_of(gold.events, gold.text, metric)
    found = items_of(predicted, gold.text, metric)
    # An exact sum: the order of a set differs from process to process.
    return math.fsum(credit(item, right, metric) for item in found), len(found), len(right)


def count_whole(gold: Example, predicted: Iterable[Event]) -> tuple:
    """Return `(correct, predicted, gold)` whole events of one record, right in every part."""
    right, found = set(gold.events), set(predicted)
    return len(right & found), len(found), len(right)


def score(golds: Sequence[Example], predictions: dict[Id, list[Event]]) -> dict:
    """Return every metric of a file; a record without predictions has no events.

    Returns:
        `<metric>_f1` for each metric, and `event_f1` for whole events, right in every part.
        `metrics`: precision, recall and counts of each. `TABLES`: the same for each label.
    """
    metrics = {name: np.zeros(3) for name in (*METRICS, "event")}
    for gold in golds:
        found = predictions.get(gold.id, [])
        for metric in METRICS:
            metrics[metric] += count_matches(gold, found, metric)
        metrics["event"] += count_whole(gold, found)
    numbers = {name: precision_recall_f1(*counts) for name, counts in metrics.items()}
    result: dict = {f"{name}_f1": row["f1"] for name, row in numbers.items()}
    result["metrics"] = numbers
    return result | {name: score_labels(golds, predictions, name) for name in TABLES}


def score_labels(
    golds: Sequence[Example], predictions: dict[Id, list[Event]], table: str
) -> dict[str, dict]:
    """Return precision, recall and F1 of each label of one of `TABLES`."""
    metric, part = TABLES[table]
    counts: tuple[Counter, ...] = Counter(), Counter(), Counter()
    for gold in golds:
        events = gold.events, predictions.get(gold.id, [])
        right, found = (items_of(own, gold.text, metric) for own in events)
        for counter, items in zip(counts, (right & found, found, right), strict=True):
            counter.update(item[part] for item in items)
    labels = sorted(counts[1] | counts[2])
    return {label: precision_recall_f1(*(own[label] for own in counts)) for label in labels}


def tune_threshold(golds: Sequence[Example], graphs: dict[Id, Graph], metric: str) -> dict:
    """Return the `threshold` with the best sum of two F1: of a metric, and of whole events.

    0.5 is tried first and wins ties; then quantiles of the `eased` probabilities of all mentions.
    Also returns `precision_recall`: rows of the metric, the row of the threshold first.
    """
    levels = [eased(r, p) for own in graphs.values() for (_, r, _), p in own.mentions.items()]
    tried = {}  # threshold -> its row of the metric, and that of whole events
    for threshold in (0.5, *np.quantile(levels or [0.5], QUANTILES).tolist()):
        counts = np.zeros((2, 3))
        for gold in golds:
            found = events_at(graphs[gold.id], threshold)
            counts[0] += count_matches(gold, found, metric)
            counts[1] += count_whole(gold, found)
        tried[threshold] = [precision_recall_f1(*row) for row in counts]
    best = max(tried, key=lambda threshold: sum(row["f1"] for row in tried[threshold]))
    listed = (best, *sorted(tried, reverse=True))
    curve = [[t, tried[t][0]["precision"], tried[t][0]["recall"]] for t in listed]
    return {"threshold": best, "precision_recall": curve}
