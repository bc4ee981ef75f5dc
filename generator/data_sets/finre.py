"""FinRE: `head <tab> tail <tab> relation <tab> sentence`, one pair a line, no offsets."""

from pathlib import Path

from generator.data_sets.reading import Span, pick, read_fields, text_id
from generator.data_sets.triples import Triple, triple_records
from generator.errors import InputError

FIELDS = ("head", "tail", "relation", "sentence")
NO_RELATION = "unknown"


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn FinRE files into the records of each split, one record a sentence.

    Args:
        files: one file a split, in the order of `splits`.
        splits: the pinned ids of each split's sentences.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return {
        split: pick(read_records(path, set(ids)), ids, split, str(path))
        for path, (split, ids) in zip(files, splits.items(), strict=True)
    }


def read_records(path: Path, wanted: set[str]) -> dict[str, dict]:
    """Group the lines of a file by sentence, for the wanted sentences."""
    sentences: dict[str, str] = {}
    triples: dict[str, set[Triple]] = {}
    for where, (head, tail, relation, sentence) in read_fields(path, FIELDS):
        name = text_id(sentence)
        if name not in wanted:
            continue
        sentences[name] = sentence
        found = triples.setdefault(name, set())
        if relation != NO_RELATION:
            subject, object_ = locate(sentence, head, tail, where)
            found.add((*subject, relation, *object_))
    return {
        name: {"id": name, "text": sentence, "triples": triple_records(triples[name])}
        for name, sentence in sentences.items()
    }


def locate(sentence: str, head: str, tail: str, where: str) -> tuple[Span, Span]:
    """Find the spans of head and tail: the first ones that do not overlap.

    One name is often a part of the other. Only where every pair of occurrences overlaps are the
    first ones taken as they are.

    Raises:
        InputError: the sentence does not hold the head or the tail.
    """
    heads, tails = occurrences(sentence, head), occurrences(sentence, tail)
    for role, name, spans in (("head", head, heads), ("tail", tail, tails)):
        if not spans:
            raise InputError(
                f"{where}: the sentence does not hold its {role} {name!r}: fetch the file again."
            )
    apart = (
        (subject, object_)
        for subject in heads
        for object_ in tails
        if subject[1] <= object_[0] or object_[1] <= subject[0]
    )
    return next(apart, (heads[0], tails[0]))


def occurrences(sentence: str, name: str) -> list[Span]:
    """Return every span of the sentence that reads like the name, which an empty one never does."""
    starts = range(len(sentence) - len(name) + 1)
    return [
        (start, start + len(name)) for start in starts if name and sentence.startswith(name, start)
    ]
