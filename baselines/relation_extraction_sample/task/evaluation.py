"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

from core.data.records import name_file
from core.report.report import ErrorExample, ErrorItem
from core.train.scoring import Evaluation
from task.data import Example, Triple
from task.decode import Candidates, above, prediction_records, read_prediction
from task.metrics import score, tune_threshold


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates that were predicted for the examples of a file.

    Args:
        examples: gold; they were read from `path`.
        candidates: from `predict_triples`.
        threshold: a triple must be surer; None: take the one that scores best on these examples.
        shown: examples to put into words.
    """
    tuned = tune_threshold(examples, candidates) if threshold is None else {"threshold": threshold}
    predictions = above(candidates, tuned["threshold"])
    triples = {name: [triple for triple, _ in scored] for name, scored in predictions.items()}
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, triples)},
        predictions=prediction_records(examples, predictions),
        shown=[describe(example, triples[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: Sequence[Triple], most: int = 8) -> str:
    """Return a text with its gold triples beside the predicted ones, `most` of each."""

    def words(triples: Sequence[Triple]) -> str:
        text = example.text
        listed = [
            f"{text[slice(*t.subject)]} | {t.predicate} | {text[slice(*t.object)]}"
            for t in sorted(triples)[:most]
        ]
        more = [f"and {len(triples) - most} more"] if len(triples) > most else []
        return "; ".join(listed + more)

    gold, found = words(example.triples), words(predicted)
    return f"{example.text}\n  gold:      {gold}\n  predicted: {found}\n"


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
