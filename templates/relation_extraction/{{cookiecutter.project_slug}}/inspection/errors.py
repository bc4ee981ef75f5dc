"""Right and wrong triples of dev, for the report of a run."""

from collections.abc import Sequence

from core.report.report import ErrorExample, ErrorItem
from task.data import Example, Triple
from task.decode import read_prediction


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
