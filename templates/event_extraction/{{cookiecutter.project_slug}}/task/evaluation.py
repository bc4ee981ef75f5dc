"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

from core.data.records import Id, name_file
from core.report.report import ErrorExample, ErrorItem
from core.scores.evaluation import Evaluation
from task.data import Event, Example
from task.decode import keep_events, prediction_records, read_prediction
from task.graph import Graph, mentions_of, sort_key
from task.metrics import score, tune_threshold


def evaluate(
    examples: Sequence[Example],
    graphs: dict[Id, Graph],
    path: Path,
    metric: str,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the graphs that were predicted for the examples of a file.

    Args:
        examples: gold.
        graphs: from `predict_events`.
        path: where the examples were read from.
        metric: chooses the threshold; DuEE's takes that of argument classification.
        threshold: a mention must be surer; None: take the one that scores best on these examples.
        shown: examples to put into words.
    """
    tuned: dict = {"threshold": threshold}
    if threshold is None:
        # DuEE's sum pays for every guess that overlaps: alone it would have everything accepted.
        one = "argument_classification" if metric == "duee" else metric
        tuned = tune_threshold(examples, graphs, one)
    events = keep_events(graphs, tuned["threshold"])
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, events)},
        predictions=prediction_records(examples, graphs, events),
        shown=[describe(example, events[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: Sequence[Event], most: int = 6) -> str:
    """Return a text with its gold events beside the predicted ones, `most` of each."""

    def words(events: Sequence[Event]) -> str:
        listed = []
        for event in sorted(events, key=sort_key)[:most]:
            parts = [
                ("" if role is None else f"{role}=") + example.text[slice(*span)]
                for role, span in event.nodes()
            ]
            listed.append(f"{event.type}: {' | '.join(parts)}")
        more = [f"and {len(events) - most} more"] if len(events) > most else []
        return "; ".join(listed + more)

    gold, found = words(example.events), words(predicted)
    return f"{example.text}\n  gold:      {gold}\n  predicted: {found}\n"


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from the records of predictions."""
    predicted = {record["id"]: read_prediction("dev.jsonl", record)[1] for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], mentions_of(example.events)
        kinds = {mention: "missed" for mention in gold if mention not in found}
        kinds |= {mention: "correct" if mention in gold else "invented" for mention in found}
        items = []
        for (event_type, role, span), kind in kinds.items():
            name, sure = role or "trigger", found.get((event_type, role, span))
            items.append(ErrorItem(kind, f"{event_type}: {name}", [(*span, name)], sure))
        reports.append(ErrorExample(example.id, example.text, items))
    return reports
