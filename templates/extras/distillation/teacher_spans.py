"""What teachers say of the triples, entities or events of a file: the mean of their probabilities.

A span that a teacher finds less probable than the least that a prediction considers counts as 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.data.records import Id
from task.data import Example
from task.prediction import load_runs, predict

# Of each teacher: record id -> what it finds.
Parts = Sequence[dict[Id, Any]]


def span_predictions(
    folders: Sequence[Path], examples: Sequence[Example], floor: float, hard: bool
) -> list[dict]:
    """Return the records of a predictions file with what is more probable than a floor.

    Args:
        folders: of the runs, which may have different encoders.
        examples: to predict.
        floor: a probability.
        hard: they become labels: entities overlap only where they did in training.
    """
    parts = [predict(load_runs([folder]), examples) for folder in folders]
    one = next(iter(parts[0].values()))
    if isinstance(one, list):
        return triple_records(examples, parts, floor)
    if hasattr(one, "ranked"):
        return entity_records(examples, parts, floor, hard)
    return event_records(examples, parts, floor)


def mean_of(scored: Iterable[Any]) -> dict[Any, float]:
    """Return the mean scores of several teachers, the highest first; what one lacks is 0 there.

    >>> mean_of([{"a": 0.75, "b": 0.5}, [("a", 1.0)]])
    {'a': 0.875, 'b': 0.25}
    """
    every = [dict(one) for one in scored]
    means = {name: 0.0 for own in every for name in own}
    for name in means:
        means[name] = sum(own.get(name, 0.0) for own in every) / len(every)
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def triple_records(examples: Sequence[Example], parts: Parts, floor: float) -> list[dict]:
    """Return records with the triples above a floor."""
    from task.decode import above, prediction_records

    means = {one.id: [*mean_of(part[one.id] for part in parts).items()] for one in examples}
    return prediction_records(examples, above(means, floor))


def entity_records(
    examples: Sequence[Example], parts: Parts, floor: float, hard: bool
) -> list[dict]:
    """Return records with the entities above a floor; those that overlap too unless `hard`."""
    from formats.records import prediction_records
    from task.decode import rank

    floors: dict[str, float] = defaultdict(lambda: floor)
    found = {}
    for example in examples:
        own = [part[example.id] for part in parts]
        ranked = rank(mean_of(one.ranked for one in own), own[0].flat and hard)
        found[example.id] = ranked.above(floors)
    return prediction_records(examples, found)


def event_records(examples: Sequence[Example], parts: Parts, floor: float) -> list[dict]:
    """Return records with the events that are found with the floor as threshold."""
    from formats.records import prediction_records
    from library.graph import Graph
    from task.decode import keep_events

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
    """Return an event with the trigger and the arguments above a floor: its threshold is eased."""
    arguments = [one for one in event["arguments"] if one["score"] > floor]
    if event.get("trigger_score", 1.0) > floor:
        return {**event, "arguments": arguments}
    return {"type": event["type"], "trigger": None, "arguments": arguments}
