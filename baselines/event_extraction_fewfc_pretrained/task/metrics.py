"""Scores of events: CasEE's four, DuEE's overlap of characters, and whole events.

CasEE counts distinct items of each record: trigger identification `span`, trigger classification
`(type, span)`, argument identification `(type, span)`, argument classification
`(type, role, span)`. A span must be exactly right. Source: Sheng et al. 2021,
https://aclanthology.org/2021.findings-acl.14.

DuEE counts distinct `(type, role, text)` of each record. A predicted argument earns the F1 of its
characters and those of the gold argument of its type and role that it overlaps most.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from task.data import Event, Example
from task.graph import Mention, mentions_of

METRICS = (
    "trigger_identification",
    "trigger_classification",
    "argument_identification",
    "argument_classification",
    "duee",
)
# Arguments by role and by event type, triggers by event type.
TABLES = ("per_role", "per_type", "per_trigger")


def item_of(mention: Mention, text: str, metric: str) -> tuple | None:
    """Return what a metric counts a mention as; None: it does not count it.

    Args:
        mention: type, role and span.
        text: of the record.
        metric: one of `METRICS`.
    """
    kind, role, span = mention
    if metric.startswith("trigger") != (role is None):
        return None
    return {
        "trigger_identification": (span,),
        "trigger_classification": (kind, span),
        "argument_identification": (kind, span),
        "argument_classification": (kind, role, span),
        "duee": (kind, role, text[slice(*span)].lower()),
    }[metric]


def items_of(mentions: Iterable[Mention], text: str, metric: str) -> set[tuple]:
    """Return the distinct items of some mentions."""
    return {item_of(mention, text, metric) for mention in mentions} - {None}


def credit(item: tuple, gold: set[tuple], metric: str) -> float:
    """Return what a predicted item earns, from 0 to 1."""
    if metric != "duee":
        return float(item in gold)
    return max(
        (character_f1(item[2], text) for kind, role, text in gold if (kind, role) == item[:2]),
        default=0.0,
    )


def character_f1(one: str, two: str) -> float:
    """Return 2 shared characters / (characters of both), each counted as often as it stands."""
    return 2 * (Counter(one) & Counter(two)).total() / (len(one) + len(two))


def count_matches(gold: Example, predicted: Iterable[Event], metric: str) -> tuple:
    """Return `(correct, predicted, gold)` of one record; correct is the sum of the credits.

    Args:
        gold: the record.
        predicted: what was found in it.
        metric: one of `METRICS`.
    """
    right = items_of(mentions_of(gold.events), gold.text, metric)
    found = items_of(mentions_of(predicted), gold.text, metric)
    # Exact, so that the order of a set, which differs from run to run, can't show.
    correct = math.fsum(credit(item, right, metric) for item in found)
    return correct, len(found), len(right)


def score(golds: Sequence[Example], predictions: dict[str, list[Event]]) -> dict:
    """Return every metric of a file.

    Args:
        golds: the records with their events.
        predictions: record id -> events; a record that is absent has none.

    Returns:
        `<metric>_f1` for each metric and `event_f1` for whole events, which are right in all their
        parts; `metrics` with precision, recall and counts of each; `per_role` and `per_type` with
        those of argument classification, `per_trigger` with those of trigger classification by
        type.
    """
    metrics = {name: np.zeros(3) for name in (*METRICS, "event")}
    tables = {name: defaultdict(lambda: np.zeros(3)) for name in TABLES}
    for gold in golds:
        found = predictions.get(gold.id, [])
        for metric in METRICS:
            metrics[metric] += count_matches(gold, found, metric)
        right, guess = set(gold.events), set(found)
        metrics["event"] += len(right & guess), len(guess), len(right)
        right, guess = mentions_of(gold.events).keys(), mentions_of(found).keys()
        for mention in right | guess:
            kind, role, _ = mention
            counts = mention in right and mention in guess, mention in guess, mention in right
            if role is None:
                tables["per_trigger"][kind] += counts
            else:
                tables["per_role"][role] += counts
                tables["per_type"][kind] += counts
    numbers = {name: rates(*counts) for name, counts in metrics.items()}
    return {
        **{f"{name}_f1": row["f1"] for name, row in numbers.items()},
        "metrics": numbers,
        **{
            name: {label: rates(*rows[label]) for label in sorted(rows)}
            for name, rows in tables.items()
        },
    }


def rates(correct: float, predicted: int, gold: int) -> dict[str, float | int]:
    """Return precision, recall and F1 of three counts; each is 0 where it has nothing to count."""
    return {
        "precision": float(correct / predicted) if predicted else 0.0,
        "recall": float(correct / gold) if gold else 0.0,
        "f1": float(2 * correct / (predicted + gold)) if predicted + gold else 0.0,
        "correct": int(correct) if correct == int(correct) else round(float(correct), 4),
        "predicted": int(predicted),
        "gold": int(gold),
    }


def best_threshold(
    golds: Sequence[Example], candidates: dict[str, dict[Mention, float]], metric: str
) -> float:
    """Return the threshold with the best F1 when mentions that are surer are kept.

    Every threshold that makes a difference is tried. Of several that are equally good the one
    nearest to 0.5 is taken, and 0.5 itself where none is better.

    Args:
        golds: the records with their events.
        candidates: record id -> the probability of each mention.
        metric: one of `METRICS`.
    """
    scores, credits, gold_count = [], [], 0
    for gold in golds:
        best: dict[tuple, float] = {}
        for mention, sure in candidates.get(gold.id, {}).items():
            item = item_of(mention, gold.text, metric)
            if item is not None:
                best[item] = max(sure, best.get(item, sure))
        right = items_of(mentions_of(gold.events), gold.text, metric)
        gold_count += len(right)
        scores += best.values()
        credits += [credit(item, right, metric) for item in best]
    if not scores:
        return 0.5

    order = np.argsort(scores)[::-1]
    values, correct = np.array(scores)[order], np.cumsum(np.array(credits)[order])
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
