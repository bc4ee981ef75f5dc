"""Right and wrong labels of dev, for the report of a run."""

from collections.abc import Sequence

from core.base.errors import InputError
from core.base.extras import need
from core.report.report import ErrorExample, ErrorItem
from task.records import Example


def find_errors(
    examples: Sequence[Example], predictions: Sequence[dict], scores: dict
) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report.

    Args:
        examples: gold.
        predictions: records of the predictions file.
        scores: of these predictions; they name the positive label, if there is one.
    """
    if "targets" in predictions[0]:
        return need("competition", "number_evaluation").find_number_errors(examples, predictions)
    records = {record["id"]: record for record in predictions}
    reports = []
    for example in examples:
        record, probabilities = records[example.id], records[example.id]["probabilities"]
        found, gold = set(read_prediction("dev.jsonl", record)), set(example.labels)
        kinds = {"missed": gold - found, "invented": found - gold, "correct": found & gold}
        items = [
            ErrorItem(kind, name, [], probabilities.get(name))
            for kind, names in kinds.items()
            for name in sorted(names)
        ]
        asked = [scores["positive_label"]] if "positive_label" in scores else probabilities
        weighed = [(probabilities[name], name in gold) for name in asked]
        text, group = example.line_of_text, example.group or ""
        reports.append(ErrorExample(example.id, text, items, candidates=weighed, group=group))
    return reports


def read_prediction(place: str, record: dict) -> tuple[str, ...]:
    """Return the labels of a record of a predictions file.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    labels = record.get("labels", [record["label"]] if "label" in record else None)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.")
    return tuple(labels)
