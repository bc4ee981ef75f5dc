"""FinRE: `head <tab> tail <tab> relation <tab> sentence`, one pair a line, no offsets."""

import hashlib
from pathlib import Path

from generator.data_sets.reading import Triple, pick, read_lines, triple_records
from generator.errors import InputError

NO_RELATION = "unknown"
Span = tuple[int, int]


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


def sentence_id(sentence: str) -> str:
    """Return the id of a sentence: the file has none, so the text names itself."""
    digest = hashlib.sha1(sentence.encode("utf-8"), usedforsecurity=False)
    return digest.hexdigest()[:12]


def read_records(path: Path, wanted: set[str]) -> dict[str, dict]:
    """Group the lines of a file by sentence, for the wanted sentences."""
    sentences: dict[str, str] = {}
    triples: dict[str, set[Triple]] = {}
    for line, text in read_lines(path):
        where = f"{path}, line {line}"
        fields = text.split("\t")
        if len(fields) != 4 or not all(fields):
            raise InputError(
                f"{where}: {len(fields)} fields instead of head, tail, relation and sentence:"
                " fetch the file again."
            )
        head, tail, relation, sentence = fields
        name = sentence_id(sentence)
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
    """Return every span of the sentence that reads like the name."""
    starts = range(len(sentence) - len(name) + 1)
    return [(start, start + len(name)) for start in starts if sentence.startswith(name, start)]
