"""DuIE, and CMeIE, which has its format: triples as words, without offsets.

A line is `{"text": ..., "spo_list": [{"subject", "predicate", "object", "subject_type",
"object_type"}]}`. Since DuIE 2.0 an object is `{"@value": ...}`, and may have further slots, such
as `inWork`; each slot is a triple of its own here, of the predicate `predicate@slot`.
"""

from typing import Any

from extras.host_formats.options import Options, Types, count_type, usual_type
from extras.host_formats.records import (
    Conversion,
    Span,
    Triple,
    find_words,
    locate_pair,
    read_id,
    text_id,
    triple_records,
)
from extras.host_formats.source_files import SourceError, check_kind, field, objects, shown

VALUE, SLOT = "@value", "@"


def read_duie(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line; the first mentions of its words that don't overlap are taken."""
    text = field(line, "text", str, where)
    name = read_id(line, "id", where) if "id" in line else text_id(text)
    record: dict[str, Any] = {"id": name, "text": text}
    if line.get("spo_list") is None:
        return record
    triples: list[Triple] = []
    for item in objects(line, "spo_list", where):
        subject = field(item, "subject", str, where)
        heads = spans_of(text, subject, where, conversion)
        for predicate, words, _ in read_slots(item, where):
            if SLOT in predicate:
                conversion.remark("slots of objects, each read as a triple of its own", where)
            pair = locate(heads, spans_of(text, words, where, conversion), where, conversion)
            if pair:
                triples.append((*pair[0], predicate, *pair[1]))
                heads = heads if SLOT in predicate else [pair[0]]  # slots have the same subject
    return {**record, "triples": triple_records(triples, where, conversion)}


def read_slots(item: dict, where: str) -> list[tuple[str, str, str]]:
    """Return `(predicate, words, type)` of the object of a triple, then of each of its slots."""
    predicate = field(item, "predicate", str, where)
    if SLOT in predicate:
        raise SourceError(f"{where}: the predicate {shown(predicate)} has an {SLOT!r}")
    values, kinds = (
        value if isinstance(value, dict) else {VALUE: value}
        for value in (item.get("object"), item.get("object_type", {}))
    )
    if not isinstance(values.get(VALUE), str):
        raise SourceError(f"{where}: the field 'object' is {shown(item.get('object'))}")
    return [
        (
            predicate if slot == VALUE else f"{predicate}{SLOT}{slot}",
            check_kind(words, str, f"the object's {slot!r}", where),
            str(kinds.get(slot, "")),
        )
        for slot, words in sorted(values.items(), key=lambda slot: slot[0] != VALUE)
        if words or slot == VALUE
    ]


def spans_of(text: str, words: str, where: str, conversion: Conversion) -> list[Span]:
    """Return every place of words in a text."""
    words = words.strip()
    places = find_words(text, words, where, conversion)
    return [(place, place + len(words)) for place in places]


def locate(
    heads: list[Span], tails: list[Span], where: str, conversion: Conversion
) -> tuple[Span, Span] | None:
    """Return one place of subject and object; None: the text lacks one, which is counted."""
    if not heads or not tails:
        what = "triples whose subject or object is not in the text, left out"
        conversion.remark(what, where)
        return None
    what = "triples whose subject or object occurs more than once"
    return locate_pair(heads, tails, what, where, conversion)


def find_types(line: dict, where: str, types: Types) -> None:
    """Count the types of a line of the schema, or of a labelled file."""
    for item in objects(line, "spo_list", where) if line.get("spo_list") else [line]:
        if "predicate" not in item:
            continue
        predicate = field(item, "predicate", str, where)
        if item.get("subject_type"):
            count_type(types.subjects, predicate, field(item, "subject_type", str, where))
        kinds = item.get("object_type") or {}
        if "object" in item:
            types.plain = bool(types.plain) or isinstance(item["object"], str)
        types.plain_schema |= "object" not in item and isinstance(kinds, str)
        named = {VALUE: kinds} if isinstance(kinds, str) else kinds
        for slot, kind in check_kind(named, dict, "the field 'object_type'", where).items():
            key = predicate if slot == VALUE else f"{predicate}{SLOT}{slot}"
            count_type(types.objects, key, check_kind(kind, str, f"the type of {slot!r}", where))


def write_duie(line: dict | None, record: dict, options: Options, conversion: Conversion) -> dict:
    """Return a line with the predicted triples: words instead of spans, slots in their objects."""
    text, where = record["text"], f"record {record['id']}"
    given = {} if line is None else {"id": line["id"]} if "id" in line else {}
    whole = [triple for triple in record["triples"] if SLOT not in triple["predicate"]]
    rows = [{VALUE: text[slice(*triple["object"])]} for triple in whole]
    for triple in record["triples"]:
        predicate, at, slot = triple["predicate"].partition(SLOT)
        if at:
            words = text[slice(*triple["object"])]
            own = [n for n, one in enumerate(whole) if of_object(one, triple, predicate)]
            free = [number for number in own if slot not in rows[number]] or own
            near = min(free, key=lambda n: gap(whole[n]["object"], triple["object"]), default=-1)
            if near < 0:
                what = "predicted slots without an object of their own, left out"
                conversion.remark(what, where)
            elif slot in rows[near]:  # a further value of the slot: the same object once more
                whole.append(whole[near])
                rows.append({VALUE: rows[near][VALUE], slot: words})
            else:
                rows[near][slot] = words
    items = [
        spell_out(text, triple, values, where, options.types, conversion)
        for triple, values in zip(whole, rows, strict=True)
    ]
    distinct = [item for number, item in enumerate(items) if item not in items[:number]]
    what = "triples with the words of another one of their record, written once"
    conversion.remark(what, where, len(items) - len(distinct))
    return {**given, "text": text, "spo_list": distinct}


def of_object(triple: dict, slot: dict, predicate: str) -> bool:
    """Return whether a slot may belong to the object of a triple."""
    return triple["predicate"] == predicate and triple["subject"] == slot["subject"]


def gap(one: Span, other: Span) -> int:
    """Return the characters between two spans; 0 if they touch or overlap."""
    return max(one[0] - other[1], other[0] - one[1], 0)


def spell_out(
    text: str, triple: dict, values: dict, where: str, types: Types, conversion: Conversion
) -> dict:
    """Return a triple as DuIE writes it; without a known type it has none."""
    predicate = triple["predicate"]
    item: dict[str, Any] = {
        "predicate": predicate,
        "subject": text[slice(*triple["subject"])],
        "object": values[VALUE] if types.plain else values,
    }
    subject = usual_type(types.subjects, predicate)
    keys = {slot: predicate if slot == VALUE else f"{predicate}{SLOT}{slot}" for slot in values}
    kinds = {slot: usual_type(types.objects, key) for slot, key in keys.items()}
    if subject is None or None in kinds.values():
        what = "triples without types: name the schema, or a labelled file, with --schema"
        conversion.remark(what, where)
        return item
    return {**item, "subject_type": subject, "object_type": kinds[VALUE] if types.plain else kinds}
