"""The records of a file: texts with triples; read and checked field by field, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.base.errors import InputError
from core.base.words import excerpt
from core.data.records import Id, Span, collect, read_annotated, read_field, read_records, read_span

FIELDS = ("id", "text", "triples", "annotated_predicates", "subject", "predicate", "object")


@dataclass(frozen=True, order=True)
class Triple:
    """Two character spans `[start, end)` and the predicate that relates them."""

    subject: Span
    predicate: str
    object: Span


@dataclass(frozen=True)
class Example:
    """One record of a file; no `annotated_predicates`: all are annotated."""

    id: Id
    text: str
    triples: tuple[Triple, ...]
    annotated_predicates: tuple[str, ...] | None
    line: int
    weight: float = 1.0
    levels: tuple = ()  # (probability, triples at least that probable), if one is below 1


def read_examples(path: str | Path, require_triples: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "triples", "annotated_predicates" (optional)}`.
        require_triples: False for files to predict, whose triples are unknown.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, FIELDS, partial(read_example, require_triples=require_triples))


def read_example(record: dict, line: int, require_triples: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    wanted = require_triples or record.get("triples") is not None  # null: unknown
    items = read_field(record, "triples", list) if wanted else []
    triples = tuple(dict.fromkeys(read_triple(item, text) for item in items))
    annotated = read_annotated(record, [triple.predicate for triple in triples])
    # `read_records` sets `weight`.
    return Example(read_field(record, "id", Id), text, triples, annotated, line)


def read_triple(item: object, text: str) -> Triple:
    """Check one triple."""
    if not isinstance(item, dict):
        raise InputError(
            f'the triple {item!r} must be {{"subject": [start, end], "predicate": "...", '
            '"object": [start, end]}.'
        )
    subject, predicate = read_span(item, "subject", text), read_field(item, "predicate", str)
    return Triple(subject, predicate, read_span(item, "object", text))


def collect_predicates(examples: Sequence[Example]) -> list[str]:
    """Return every predicate that the training examples name, sorted."""
    if predicates := collect(find_predicates, examples, joined=True):
        return sorted(predicates)
    raise InputError("no training example has a triple: there is nothing to learn.")


def find_predicates(examples: Sequence[Example]) -> set[str]:
    """Return the predicates that examples name."""
    predicates = set()
    for example in examples:
        predicates |= {triple.predicate for triple in example.triples}
        predicates.update(example.annotated_predicates or ())
    return predicates


def prediction_records(
    examples: Sequence[Example], predictions: Mapping[Id, Sequence[tuple[Triple, float]]]
) -> list[dict]:
    """Return the records of the predictions file: the input's format, with texts and scores."""
    return [
        {
            "id": example.id,
            "text": example.text,
            "triples": [
                {
                    "subject": list(triple.subject),
                    "predicate": triple.predicate,
                    "object": list(triple.object),
                    "subject_text": example.text[slice(*triple.subject)],
                    "object_text": example.text[slice(*triple.object)],
                    "score": round(float(score), 4),
                }
                for triple, score in predictions[example.id]
            ],
        }
        for example in examples
    ]


def describe(example: Example, predicted: Sequence[Triple], most: int = 8) -> str:
    """Return a text with its gold and its predicted triples, at most `most` of each."""

    def words(triples: Sequence[Triple]) -> str:
        listed = [
            f"{example.text[slice(*t.subject)]} | {t.predicate} | {example.text[slice(*t.object)]}"
            for t in sorted(triples)[:most]
        ]
        more = [f"and {len(triples) - most} more"] if len(triples) > most else []
        return excerpt("; ".join(listed + more), most=800)

    gold, found = words(example.triples), words(predicted)
    spans = [span for t in (*example.triples, *predicted) for span in (t.subject, t.object)]
    return f"{excerpt(example.text, spans)}\n  gold:      {gold}\n  predicted: {found}\n"
