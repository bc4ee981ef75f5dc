"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

from common.callbacks import Evaluation
from common.records import name_file
from common.report import ErrorExample, ErrorItem
from task.data import Event, Example
from task.decode import keep_events, prediction_records
from task.graph import Graph, Mention, mentions_of, sort_key
from task.metrics import best_threshold, score


def evaluate(
    examples: Sequence[Example],
    candidates: dict[str, Graph],
    path: Path,
    metric: str,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates that were predicted for the examples of a file.

    Args:
        examples: gold.
        candidates: from `predict_events`.
        path: where the examples were read from.
        metric: chooses the threshold; DuEE's takes that of argument classification.
        threshold: a mention must be surer; None: take the one that scores best on these examples.
        shown: examples to put into words.
    """
    if threshold is None:
        mentions = {name: graph.mentions for name, graph in candidates.items()}
        # DuEE's sum pays for every guess that overlaps: alone it would have everything accepted.
        tuned = "argument_classification" if metric == "duee" else metric
        threshold = round(best_threshold(examples, mentions, tuned), 6)
    events = keep_events(candidates, threshold)
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            "threshold": threshold,
            **score(examples, events),
        },
        predictions=prediction_records(examples, candidates, events),
        shown=[describe(example, events[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: Sequence[Event], most: int = 6) -> str:
    """Return a text with its gold events beside the predicted ones, `most` of each."""

    def words(events: Sequence[Event]) -> str:
        listed = []
        for event in sorted(events, key=sort_key)[:most]:
            parts = [f"{role}={example.text[slice(*span)]}" for role, span in event.arguments]
            if event.trigger:
                parts.insert(0, example.text[slice(*event.trigger)])
            listed.append(f"{event.type}: {' | '.join(parts)}")
        more = [f"and {len(events) - most} more"] if len(events) > most else []
        return "; ".join(listed + more)

    return (
        f"{example.text}\n  gold:      {words(example.events)}\n  predicted: {words(predicted)}\n"
    )


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example with an error, for the report.

    Args:
        examples: gold.
        predictions: records of the predictions file.
    """
    predicted = {record["id"]: scored_mentions(record) for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], mentions_of(example.events)
        items = [error_item("missed", mention, None) for mention in gold if mention not in found]
        items += [
            error_item("correct" if mention in gold else "invented", mention, sure)
            for mention, sure in found.items()
        ]
        if any(item.kind != "correct" for item in items):
            reports.append(ErrorExample(example.id, example.text, items))
    return reports


def scored_mentions(record: dict) -> dict[Mention, float]:
    """Return the mentions of a record of the predictions file with their scores."""
    mentions = {}
    for event in record["events"]:
        if event["trigger"]:
            mentions[event["type"], None, tuple(event["trigger"])] = event["trigger_score"]
        for argument in event["arguments"]:
            key = event["type"], argument["role"], tuple(argument["span"])
            mentions[key] = argument["score"]
    return mentions


def error_item(kind: str, mention: Mention, score: float | None) -> ErrorItem:
    """Return one mention of the report."""
    event_type, role, span = mention
    name = role or "trigger"
    return ErrorItem(kind, f"{event_type}: {name}", [(*span, name)], score)
