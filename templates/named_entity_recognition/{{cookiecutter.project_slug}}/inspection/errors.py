"""Right and wrong entities of dev, for the report of a run."""

from collections.abc import Sequence

from core.base.errors import InputError
from core.report.report import ErrorExample, ErrorItem
from task.records import Entity, Example


def read_prediction(place: str, record: dict) -> dict[Entity, float | None]:
    """Return the entities of a record of a predictions file, with their scores.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    try:
        return {
            Entity(tuple(item["span"]), item["type"]): item.get("score")
            for item in record["entities"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    predicted = {record["id"]: read_prediction("dev.jsonl", record) for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], set(example.entities)
        kinds = {entity: "missed" for entity in sorted(gold - found.keys())}
        kinds |= {entity: "correct" if entity in gold else "invented" for entity in found}
        items = [
            ErrorItem(kind, entity.type, [(*entity.span, entity.type)], found.get(entity))
            for entity, kind in kinds.items()
        ]
        reports.append(ErrorExample(example.id, example.text, items))
    return reports
