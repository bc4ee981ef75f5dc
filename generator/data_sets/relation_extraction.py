"""Data sets of relation extraction as triples in one fixed order."""

from collections.abc import Iterator
from pathlib import Path

from extras.host_formats.docred import read_docred
from extras.host_formats.options import RELATIONS, Options
from extras.host_formats.records import (
    Conversion,
    Span,
    Triple,
    find_span,
    locate_pair,
    occurrences,
    read_id,
    text_id,
    triple_records,
)
from extras.host_formats.source_files import (
    SourceError,
    field,
    named,
    objects,
    read_fields,
    read_json_objects,
    read_objects,
    shown,
)

FINRE_FIELDS = ("head", "tail", "relation", "sentence")
NO_RELATION = "unknown"

# ------------------------------------------------------------------------------------ KnowledgeNet

# One document per line: passages with facts; offsets count in the document.


def read_knowledgenet(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted passages: their spans count their own characters."""
    passages = [
        (f"{where}, passage {named(passage['passageId'])}", passage)
        for where, document in read_objects(files)
        for passage in objects(document, "passages", where)
        if read_id(passage, "passageId", where) in conversion.wanted
    ]
    # A test file lists facts and predicates for no passage, or leaves both out.
    labelled = any(
        passage.get("facts") or passage.get("exhaustivelyAnnotatedProperties")
        for _, passage in passages
    )
    for where, passage in passages:
        record = {
            "id": read_id(passage, "passageId", where),
            "text": field(passage, "passageText", str, where),
        }
        if labelled and passage.get("facts") is not None:
            record |= read_facts(passage, where, conversion)
        yield where, record


def read_facts(passage: dict, where: str, conversion: Conversion) -> dict:
    """Return the triples of a passage, and the predicates that it was annotated for."""
    names = {
        read_id(annotated, "propertyId", where): field(annotated, "propertyName", str, where)
        for annotated in objects(passage, "exhaustivelyAnnotatedProperties", where)
    }
    triples: list[Triple] = []
    for fact in objects(passage, "facts", where):
        subject = read_span(passage, fact, "subject", where, conversion)
        object_ = read_span(passage, fact, "object", where, conversion)
        # A passage that is not annotated for a predicate says nothing about it.
        predicate = names.get(read_id(fact, "propertyId", where))
        if predicate is not None:
            triples.append((*subject, predicate, *object_))
        else:
            what = "facts of a predicate that their passage is not annotated for, left out"
            conversion.remark(what, where)
    return {
        "triples": triple_records(triples, where, conversion),
        "annotated_predicates": sorted(set(names.values())),
    }


def read_span(passage: dict, fact: dict, role: str, where: str, conversion: Conversion) -> Span:
    """Return a span in the passage after checking that it holds the text it should."""
    begin = field(passage, "passageStart", int, where)
    start = field(fact, f"{role}Start", int, where) - begin
    end = field(fact, f"{role}End", int, where) - begin
    words, name = field(fact, f"{role}Text", str, where), f"the {role} of a fact"
    return find_span(passage["passageText"], start, words, name, where, conversion, end)


# ------------------------------------------------------------------------------------------- FinRE

# `head <tab> tail <tab> relation <tab> sentence`, one pair per line, no offsets.


def read_finre(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences: all lines of a sentence are one record."""
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    triples: dict[str, list[Triple]] = {}
    labelled: set[str] = set()
    for where, line in (
        row for path in files for row in read_fields(path, FINRE_FIELDS, "relation")
    ):
        name = text_id(line["sentence"])
        if name not in conversion.wanted:
            continue
        if name in texts:
            what = "lines whose sentence an earlier line has: all are one record"
            conversion.remark(what, where)
        places.setdefault(name, where)
        texts[name] = line["sentence"]
        found = triples.setdefault(name, [])
        if not line["relation"].strip():
            conversion.remark("pairs of head and tail without a relation, left out", where)
            continue
        labelled.add(name)
        if line["relation"] == NO_RELATION:
            what = f"pairs of head and tail whose relation is {NO_RELATION!r}: they give no triple"
            conversion.remark(what, where)
        else:
            subject, object_ = locate(
                line["sentence"], line["head"], line["tail"], where, conversion
            )
            found.append((*subject, line["relation"], *object_))
    for name, where in places.items():
        record: dict = {"id": name, "text": texts[name]}
        if name in labelled:
            record["triples"] = triple_records(triples[name], where, conversion)
        yield where, record


def locate(
    sentence: str, head: str, tail: str, where: str, conversion: Conversion
) -> tuple[Span, Span]:
    """Find the spans of head and tail, as `locate_pair` chooses them.

    Raises:
        SourceError: the sentence does not hold the head or the tail.
    """
    heads, tails = (
        [(place, place + len(name)) for place in occurrences(sentence, name)]
        for name in (head, tail)
    )
    for role, name, spans in (("head", head, heads), ("tail", tail, tails)):
        if not spans:
            raise SourceError(f"{where}: the sentence does not hold its {role} {shown(name)}")
    what = "pairs of head and tail that stand in their sentence more than once"
    return locate_pair(heads, tails, what, where, conversion)


# -------------------------------------------------------------------------------------- Re-DocRED


def read_redocred(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted documents, whose ids are made of their titles.

    A relation of two entities is a triple of each two of their mentions.
    """
    options = Options(RELATIONS)
    for path in files:
        for where, document in read_json_objects(path):
            name = text_id(str(read_id(document, "title", where)))
            if name in conversion.wanted:
                yield where, {**read_docred(document, where, options, conversion), "id": name}
