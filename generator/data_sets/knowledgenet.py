"""KnowledgeNet: one document a line, passages with facts, offsets counted in the document."""

from collections.abc import Iterator
from pathlib import Path

from generator.data_sets.reading import (
    Span,
    check_span,
    fields_checked,
    parse_json,
    pool,
    read_lines,
)
from generator.data_sets.triples import Triple, triple_records


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn KnowledgeNet files into the records of each split.

    Args:
        files: files in the official format; a record may be in any of them.
        splits: the pinned passage ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned passage is missing.
    """
    return pool(files, splits, read_records)


def read_records(path: Path, wanted: set[str]) -> Iterator[tuple[str, dict]]:
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
                record = read_record(passage, place)
            yield place, record


def read_record(passage: dict, where: str) -> dict:
    """Turn a passage into a record: spans count characters of the passage's own text."""
    names = {
        annotated["propertyId"]: annotated["propertyName"]
        for annotated in passage["exhaustivelyAnnotatedProperties"]
    }
    triples: set[Triple] = set()
    for fact in passage["facts"]:
        subject = read_span(passage, fact, "subject", where)
        object_ = read_span(passage, fact, "object", where)
        # A passage that is not annotated for a predicate says nothing about it.
        if fact["propertyId"] in names:
            triples.add((*subject, names[fact["propertyId"]], *object_))
    return {
        "id": passage["passageId"],
        "text": passage["passageText"],
        "triples": triple_records(triples),
        "annotated_predicates": sorted(set(names.values())),
    }


def read_span(passage: dict, fact: dict, role: str, where: str) -> Span:
    """Return a span in the passage after checking that it holds the text it should."""
    start = fact[f"{role}Start"] - passage["passageStart"]
    end = fact[f"{role}End"] - passage["passageStart"]
    words = fact[f"{role}Text"]
    return check_span(passage["passageText"], start, end, words, f"the {role} of a fact", where)
