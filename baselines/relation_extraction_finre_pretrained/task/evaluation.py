"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

from common.callbacks import Evaluation
from common.records import name_file
from common.report import ErrorExample, ErrorItem
from task.data import Example, Triple
from task.decode import above, prediction_records
from task.metrics import best_threshold, score


def evaluate(
    examples: Sequence[Example],
    candidates: dict[str, list[tuple[Triple, float]]],
    path: Path,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates that were predicted for the examples of a file.

    Args:
        examples: gold.
        candidates: from `predict_triples`.
        path: where the examples were read from.
        threshold: a triple must be surer; None: take the one that scores best on these examples.
        shown: examples to put into words.
    """
    if threshold is None:
        threshold = round(best_threshold(examples, candidates), 6)
    predictions = above(candidates, threshold)
    triples = {name: [triple for triple, _ in scored] for name, scored in predictions.items()}
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            "threshold": threshold,
            **score(examples, triples),
        },
        predictions=prediction_records(examples, predictions),
        shown=[describe(example, triples[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: Sequence[Triple], most: int = 8) -> str:
    """Return a text with its gold triples beside the predicted ones, `most` of each."""

    def words(triples: Sequence[Triple]) -> str:
        listed = [
            f"{example.text[slice(*triple.subject)]} | {triple.predicate} | "
            f"{example.text[slice(*triple.object)]}"
            for triple in sorted(triples)[:most]
        ]
        more = [f"and {len(triples) - most} more"] if len(triples) > most else []
        return "; ".join(listed + more)

    return (
        f"{example.text}\n  gold:      {words(example.triples)}\n  predicted: {words(predicted)}\n"
    )


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example with an error, for the report.

    Args:
        examples: gold.
        predictions: records of the predictions file.
    """
    predicted = {
        record["id"]: {
            Triple(tuple(item["subject"]), item["predicate"], tuple(item["object"])): item["score"]
            for item in record["triples"]
        }
        for record in predictions
    }
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
        if any(item.kind != "correct" for item in items):
            reports.append(ErrorExample(example.id, example.text, items))
    return reports


def error_item(kind: str, triple: Triple, score: float | None) -> ErrorItem:
    """Return one triple of the report."""
    spans = [(*triple.subject, "subject"), (*triple.object, "object")]
    return ErrorItem(kind, triple.predicate, spans, score)
