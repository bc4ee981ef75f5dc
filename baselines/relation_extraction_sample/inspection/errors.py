"""Right and wrong triples of dev, for the report of a run."""

from collections.abc import Sequence

from core.base.errors import InputError
from core.report.report import ErrorExample, ErrorItem
from task.records import Example, Triple


def read_prediction(place: str, record: dict) -> dict[Triple, float]:
    """Return the triples of a record of a predictions file, with their scores.

    Raises:
        InputError: names the place of a record that is not a prediction.
    """
    try:
        return {
            Triple(tuple(t["subject"]), t["predicate"], tuple(t["object"])): t.get("score", 1)
            for t in record["triples"]
        }
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    predicted = {record["id"]: read_prediction("dev.jsonl", record) for record in predictions}
    reports = []
    for example in examples:
        found, gold = predicted[example.id], set(example.triples)
        annotated = example.annotated_predicates
        items = [error_item("missed", triple, None) for triple in sorted(gold - found.keys())]
        items += [
            error_item("correct" if triple in gold else "invented", triple, found[triple])
            for triple in sorted(found)
            if annotated is None or triple.predicate in annotated
        ]
        reports.append(ErrorExample(example.id, example.text, items))
    return reports


def error_item(kind: str, triple: Triple, score: float | None) -> ErrorItem:
    """Return one triple of the report."""
    spans = [(*triple.subject, "subject"), (*triple.object, "object")]
    return ErrorItem(kind, triple.predicate, spans, score)
