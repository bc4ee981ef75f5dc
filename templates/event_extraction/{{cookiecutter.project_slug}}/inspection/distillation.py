"""What teachers say of the events of a file, for extras/distillation."""

from collections.abc import Callable, Sequence
from typing import Any

from core.data.records import Id
from formats.records import prediction_records
from library.graph import Graph
from task.decode import keep_events
from task.records import Example


def teacher_records(
    examples: Sequence[Example],
    parts: Sequence[dict[Id, Any]],
    mean_of: Callable[..., dict],
    floor: float,
    hard: bool,
) -> list[dict]:
    """Return the records of a predictions file with the events that a floor as threshold finds.

    Args:
        examples: that were predicted.
        parts: of each teacher: record id -> what it finds.
        mean_of: returns the mean scores of items, the highest first, from those of each teacher.
        floor: a probability.
        hard: makes no difference here.
    """
    graphs = {}
    for example in examples:
        own = [part[example.id] for part in parts]
        mentions, links = (mean_of(getattr(g, n) for g in own) for n in ("mentions", "links"))
        graphs[example.id] = Graph(mentions, links, frozenset.union(*(g.triggered for g in own)))
    records = prediction_records(examples, graphs, keep_events(graphs, floor))
    for record in records:
        events = (event_above(event, floor) for event in record["events"])
        record["events"] = [event for event in events if event["trigger"] or event["arguments"]]
    return records


def event_above(event: dict, floor: float) -> dict:
    """Return an event without what scores below a floor, which the eased threshold let pass."""
    arguments = [one for one in event["arguments"] if one["score"] > floor]
    if event.get("trigger_score", 1.0) > floor:
        return {**event, "arguments": arguments}
    return {"type": event["type"], "trigger": None, "arguments": arguments}
