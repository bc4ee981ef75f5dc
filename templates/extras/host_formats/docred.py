"""DocRED and Re-DocRED: relations of the entities of a document, each with several mentions.

A file is a list of `{"title", "sents": [[token, ...], ...], "vertexSet": [[{"name", "sent_id",
"pos": [first, behind], "type"}, ...], ...], "labels": [{"h", "t", "r", "evidence"}]}`. `vertexSet`
has the mentions of each entity, in files to predict too. `h` and `t` count its entities from 0.
A submission is a list of `{"title", "h_idx", "t_idx", "r"}`.

Tokens are joined by spaces to the text of a document. A relation becomes a triple of each mention
of its first entity with each mention of its second one; a predicted triple becomes a relation of
the two entities whose mentions it has.
"""

from collections import defaultdict
from itertools import product
from typing import Any

from extras.host_formats.options import Options
from extras.host_formats.records import Conversion, Span, Triple, read_id, triple_records
from extras.host_formats.source_files import SourceError, check_kind, field, objects, shown

FIELDS = ("title", "sents", "vertexSet", "labels")
ITSELF = "relations of an entity with itself, left out"
OTHER_NAME = "mentions whose 'name' is not what is at their 'pos', which was read"
NO_TEXTS = "a submission of docred counts the entities of the host's file"


def read_docred(source: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a document, whose id is its title."""
    text, sentences = join_tokens(source, where)
    entities = read_entities(source, text, sentences, where, conversion)
    record: dict[str, Any] = {"id": read_id(source, "title", where), "text": text}
    if source.get("labels") is None:
        return record
    triples: list[Triple] = []
    labels = objects(source, "labels", where)
    distinct = {read_label(label, len(entities), where) for label in labels}
    for first, predicate, second in sorted(distinct):
        conversion.remark(ITSELF, where, first == second)
        if first == second:
            continue
        pairs = [*product(entities[first], entities[second])]
        what = "relations of entities with several mentions, read as a triple of each two mentions"
        conversion.remark(what, where, len(pairs) > 1)
        what = "relations of an entity none of whose mentions has a character, left out"
        conversion.remark(what, where, not pairs)
        triples += [(*head, predicate, *tail) for head, tail in pairs]
    repeated = "relations that repeat another of their document, kept once"
    conversion.remark(repeated, where, len(labels) - len(distinct))
    # Two entities may share a mention: then several relations have the same words.
    return {**record, "triples": triple_records(triples, where, conversion)}


def join_tokens(source: dict, where: str) -> tuple[str, list[list[Span]]]:
    """Return the text of a document, and the span of each token by sentence."""
    text, sentences = "", list[list[Span]]()
    for tokens in field(source, "sents", list, where):
        spans = []
        for token in check_kind(tokens, list, "an item of 'sents'", where):
            check_kind(token, str, "a token", where)
            start = len(text) + 1 if text else 0
            text = f"{text} {token}" if text else token
            spans.append((start, len(text)) if token else (len(text), len(text)))
        sentences.append(spans)
    return text, sentences


def read_entities(
    source: dict, text: str, sentences: list[list[Span]], where: str, conversion: Conversion
) -> list[list[Span]]:
    """Return the spans of the mentions of each entity, each once, in the order of the file."""
    entities = []
    for number, mentions in enumerate(field(source, "vertexSet", list, where)):
        spans: dict[Span, None] = {}
        for mention in check_kind(mentions, list, f"entity {number}", where):
            check_kind(mention, dict, f"a mention of entity {number}", where)
            place = f"{where}, entity {number}"
            start, end = read_mention(mention, sentences, place)
            words = mention.get("name", text[start:end])
            other = "".join(str(words).split()) != "".join(text[start:end].split())
            conversion.remark(OTHER_NAME, place, other)
            conversion.remark("mentions without a character, left out", where, start == end)
            if start < end:
                spans[start, end] = None
        entities.append([*spans])
    return entities


def read_mention(mention: dict, sentences: list[list[Span]], where: str) -> Span:
    """Return the span of a mention.

    Raises:
        SourceError: its sentence or its tokens are not those of the document.
    """
    number = field(mention, "sent_id", int, where)
    place = field(mention, "pos", list, where)
    if not 0 <= number < len(sentences):
        raise SourceError(f"{where}: there is no sentence {number}")
    tokens = sentences[number]
    good = [type(offset) for offset in place] == [int, int]
    if not good or not 0 <= place[0] < place[1] <= len(tokens):
        many = f"sentence {number} with {len(tokens)} tokens"
        raise SourceError(f"{where}: {shown(place)} is no place [first, behind] in {many}")
    return tokens[place[0]][0], tokens[place[1] - 1][1]


def read_label(label: dict, entities: int, where: str) -> tuple[int, str, int]:
    """Return `(h, r, t)` of a label.

    Raises:
        SourceError: it names an entity that the document lacks.
    """
    first, second = (field(label, name, int, where) for name in ("h", "t"))
    for number in (first, second):
        if not 0 <= number < entities:
            raise SourceError(f"{where}: a label names entity {number} of {entities}, from 0")
    return first, field(label, "r", str, where), second


# --------------------------------------------------------------------------------------- submission


def write_docred(
    source: dict | None, record: dict, options: Options, conversion: Conversion
) -> list[dict]:
    """Return the relations of a document, without evidence, which no record has.

    Raises:
        SourceError: there is no document, whose entities would be counted.
    """
    where = f"record {record['id']}"
    if source is None:
        raise SourceError(f"{where}: {NO_TEXTS}", "name it with --texts")
    text, sentences = join_tokens(source, where)
    entities = read_entities(source, text, sentences, where, Conversion())
    found: dict[tuple[int, int, str], None] = {}
    triples = [(tuple(t["subject"]), t["predicate"], tuple(t["object"])) for t in record["triples"]]
    # The mentions of which the same is predicted: they show which entity is meant.
    subjects, objects_ = defaultdict(set), defaultdict(set)
    for subject, predicate, object_ in triples:
        subjects[predicate, object_].add(subject)
        objects_[subject, predicate].add(object_)
    for subject, predicate, object_ in triples:
        alike = subjects[predicate, object_], objects_[subject, predicate]
        first = entity_of(subject, entities, alike[0], where, conversion)
        second = entity_of(object_, entities, alike[1], where, conversion)
        if first is None or second is None:
            what = "triples of words that are no mention of an entity, left out"
            conversion.remark(what, where)
            continue
        conversion.remark(ITSELF, where, first == second)
        if first != second:
            found[first, second, predicate] = None
    return [
        {"title": source["title"], "h_idx": first, "t_idx": second, "r": predicate}
        for first, second, predicate in found
    ]


def entity_of(
    span: Span, entities: list[list[Span]], alike: set, where: str, conversion: Conversion
) -> int | None:
    """Return the entity whose mention a span is, or overlaps most; None: it overlaps none.

    A mention of several is that of the entity most of whose mentions are in `alike`, spans of which
    the same is predicted; then that with more of them.
    """
    owners = [number for number, mentions in enumerate(entities) if span in mentions]
    if owners:
        held = {number: len(alike.intersection(entities[number])) for number in owners}
        ranks = {n: (count / len(entities[n]), count) for n, count in held.items()}
        best = max(owners, key=lambda number: ranks[number])
        equal = sum(rank == ranks[best] for rank in ranks.values())
        what = "mentions of several entities, which nothing tells apart, read as those of the first"
        conversion.remark(what, where, equal > 1)
        return best
    shared = {
        number: max((overlap(span, mention) for mention in mentions), default=0)
        for number, mentions in enumerate(entities)
    }
    nearest = max(shared, key=lambda number: shared[number], default=None)
    if nearest is None or not shared[nearest]:
        return None
    what = "subjects and objects that are no mention, read as the one that they overlap most"
    conversion.remark(what, where)
    return nearest


def overlap(one: Span, other: Span) -> int:
    """Return how many characters two spans share."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
