"""The records of a predictions file."""

from collections.abc import Sequence

from core.data.records import Id
from library.graph import Graph, Mention
from task.records import Event, Example


def prediction_records(
    examples: Sequence[Example], graphs: dict[Id, Graph], events: dict[Id, list[Event]]
) -> list[dict]:
    """Return the records of the predictions file: the input's format, with texts and scores."""
    records = []
    for example in examples:
        text, mentions = example.text, graphs[example.id].mentions
        described = [describe_event(event, text, mentions) for event in events[example.id]]
        records.append({"id": example.id, "text": text, "events": described})
    return records


def describe_event(event: Event, text: str, mentions: dict[Mention, float]) -> dict:
    """Return an event as the predictions file holds it."""
    trigger: dict = {"trigger": None}
    arguments = []
    for role, span in event.nodes():
        words, score = text[slice(*span)], round(float(mentions[event.type, role, span]), 4)
        if role is None:
            trigger = {"trigger": list(span), "trigger_text": words, "trigger_score": score}
        else:
            arguments.append({"role": role, "span": list(span), "text": words, "score": score})
    return {"type": event.type, **trigger, "arguments": arguments}
