"""Right and wrong triggers and arguments of dev, for the report of a run."""

from collections.abc import Sequence

from core.base.errors import InputError
from core.report.report import ErrorExample, ErrorItem
from library.graph import Mention, mentions_of
from task.records import Event, Example


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    predicted = {record["id"]: read_prediction("dev.jsonl", record)[1] for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], mentions_of(example.events)
        kinds = {mention: "missed" for mention in gold if mention not in found}
        kinds |= {mention: "correct" if mention in gold else "invented" for mention in found}
        items = []
        for (event_type, role, span), kind in kinds.items():
            name, score = role or "trigger", found.get((event_type, role, span))
            items.append(ErrorItem(kind, f"{event_type}: {name}", [(*span, name)], score))
        reports.append(ErrorExample(example.id, example.text, items))
    return reports


def read_prediction(place: str, record: dict) -> tuple[list[Event], dict[Mention, float | None]]:
    """Return the events of a record of a predictions file, and the scores of their mentions.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    events, scores = [], []
    try:
        for item in record["events"]:
            kind, trigger = item["type"], item["trigger"] and tuple(item["trigger"])
            parts = [
                (part["role"], tuple(part["span"]), part["score"]) for part in item["arguments"]
            ]
            events.append(Event(kind, trigger, tuple(sorted(part[:2] for part in parts))))
            scores += [((kind, None, trigger), item.get("trigger_score"))] if trigger else []
            scores += [((kind, role, span), score) for role, span, score in parts]
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error
    return events, dict(scores)
