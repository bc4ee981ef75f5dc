"""Data sets of relation extraction: KnowledgeNet and FinRE, as triples in one fixed order."""

from collections.abc import Container, Iterator
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import (
    Span,
    check_span,
    fields_checked,
    parse_json,
    pick,
    pool,
    read_fields,
    read_lines,
    text_id,
)

FINRE_FIELDS = ("head", "tail", "relation", "sentence")
NO_RELATION = "unknown"

Triple = tuple[int, int, str, int, int]


def triple_records(triples: set[Triple]) -> list[dict]:
    """Return the triples as JSON objects, sorted independently of the source."""
    return [
        {"subject": [start, end], "predicate": predicate, "object": [object_start, object_end]}
        for start, end, predicate, object_start, object_end in sorted(triples)
    ]


# ------------------------------------------------------------------------------------ KnowledgeNet

# One document per line: passages with facts; offsets count in the document.


def convert_knowledgenet(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert KnowledgeNet files to the records of each split.

    Args:
        files: files in the official format; a record may be in any of them.
        splits: the pinned passage ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned passage is missing.
    """
    return pool(files, splits, read_passages)


def read_passages(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted passages of a file."""
    for line, text in read_lines(path):
        where = f"{path}, line {line}"
        document = parse_json(text, where)
        with fields_checked(where):
            passages = [
                passage for passage in document["passages"] if passage.get("passageId") in wanted
            ]
        for passage in passages:
            place = f"{where}, passage {passage['passageId']}"
            with fields_checked(place):
                record = read_passage(passage, place)
            yield place, record


def read_passage(passage: dict, where: str) -> dict:
    """Convert a passage to a record; spans count characters of the passage."""
    names = {
        annotated["propertyId"]: annotated["propertyName"]
        for annotated in passage["exhaustivelyAnnotatedProperties"]
    }
    triples: set[Triple] = set()
    for fact in passage["facts"]:
        subject = read_span(passage, fact, "subject", where)
        object_ = read_span(passage, fact, "object", where)
        # A passage may not be annotated for every predicate.
        if fact["propertyId"] in names:
            triples.add((*subject, names[fact["propertyId"]], *object_))
    return {
        "id": passage["passageId"],
        "text": passage["passageText"],
        "triples": triple_records(triples),
        "annotated_predicates": sorted(set(names.values())),
    }


def read_span(passage: dict, fact: dict, role: str, where: str) -> Span:
    """Return a span in the passage after checking its text."""
    start = fact[f"{role}Start"] - passage["passageStart"]
    end = fact[f"{role}End"] - passage["passageStart"]
    words = fact[f"{role}Text"]
    return check_span(passage["passageText"], start, end, words, f"the {role} of a fact", where)


# ------------------------------------------------------------------------------------------- FinRE

# `head <tab> tail <tab> relation <tab> sentence`, one pair per line, no offsets.


def convert_finre(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert FinRE files to the records of each split, one per sentence.

    Args:
        files: one file a split, in the order of `splits`.
        splits: the pinned ids of each split's sentences.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return {
        split: pick(read_sentences(path, set(ids)), ids, split, str(path))
        for path, (split, ids) in zip(files, splits.items(), strict=True)
    }


def read_sentences(path: Path, wanted: Container[str]) -> dict[str, dict]:
    """Group the lines of a file by sentence, for the wanted sentences."""
    sentences: dict[str, str] = {}
    triples: dict[str, set[Triple]] = {}
    for where, (head, tail, relation, sentence) in read_fields(path, FINRE_FIELDS):
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

    One name is often a part of the other. If every pair of occurrences overlaps, the first ones are
    taken.

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
    """Return every span of the sentence equal to the name; none for an empty name."""
    starts = range(len(sentence) - len(name) + 1)
    return [
        (start, start + len(name)) for start in starts if name and sentence.startswith(name, start)
    ]
