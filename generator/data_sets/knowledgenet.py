"""KnowledgeNet: one document a line, passages with facts, offsets counted in the document."""

import json
from pathlib import Path

from generator.data_sets.reading import Triple, pick, read_lines, triple_records
from generator.errors import InputError


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
    wanted = {name for ids in splits.values() for name in ids}
    records: dict[str, dict] = {}
    for path in files:
        for line, text in read_lines(path):
            where = f"{path}, line {line}"
            for passage in read_passages(text, where):
                name = passage.get("passageId")
                if name in wanted:
                    add_record(records, read_record(passage, where), where)
    where = " and ".join(str(path) for path in files)
    return {split: pick(records, ids, split, where) for split, ids in splits.items()}


def read_passages(text: str, where: str) -> list[dict]:
    """Return the passages of one line."""
    try:
        document = json.loads(text)
        passages = document["passages"]
        if all(isinstance(passage, dict) for passage in passages):
            return passages
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{where}: not a KnowledgeNet document in JSON: fetch the file again.")


def add_record(records: dict[str, dict], record: dict, where: str) -> None:
    """Keep a record; one that comes twice must be the same."""
    if records.setdefault(record["id"], record) != record:
        raise InputError(
            f"{where}: passage {record['id']} comes twice and differs: fetch the file again."
        )


def read_record(passage: dict, where: str) -> dict:
    """Turn a passage into a record: spans count characters of the passage's own text."""
    where = f"{where}, passage {passage['passageId']}"
    try:
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
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{where}: a field is missing or of a wrong type ({error}): fetch the file again."
        ) from error


def read_span(passage: dict, fact: dict, role: str, where: str) -> tuple[int, int]:
    """Return a span in the passage after checking that it holds the text it should."""
    start = fact[f"{role}Start"] - passage["passageStart"]
    end = fact[f"{role}End"] - passage["passageStart"]
    if not 0 <= start < end or passage["passageText"][start:end] != fact[f"{role}Text"]:
        raise InputError(
            f"{where}: the {role} of a fact is not the text at [{start}, {end}):"
            " fetch the file again."
        )
    return start, end
