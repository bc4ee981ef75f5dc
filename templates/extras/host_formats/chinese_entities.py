"""CLUENER and CMeEE, entities with the offset of their last character; labels of texts in CLUE.

CLUENER is a line `{"text", "label": {type: {words: [[first, last], ...]}}}`; `last` is that of the
last character.

CMeEE is a list of `{"text", "entities": [{"start_idx", "end_idx", "type", "entity"}]}`, where
`end_idx` is that of the last character too. In some copies it is that of the first character behind
it; the words of an entity tell which.
"""

from typing import Any

from extras.host_formats.options import Options, Types, listed
from extras.host_formats.records import (
    ENDS,
    Conversion,
    Span,
    entity_records,
    place_words,
    read_id,
    text_id,
)
from extras.host_formats.source_files import SourceError, check_kind, field, objects, shown

# How TNEWS and IFLYTEK call the description of a label.
NO_LABEL = "-"  # in OCNLI and CMNLI
DESCRIPTIONS = ("label_desc", "label_des")


def begin_record(line: dict, where: str) -> dict:
    """Return id and text of a line; its text names one that has no id."""
    text = field(line, "text", str, where)
    return {"id": read_id(line, "id", where) if "id" in line else text_id(text), "text": text}


# ----------------------------------------------------------------------------------------- CLUENER


def read_cluener(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line."""
    record: dict[str, Any] = begin_record(line, where)
    if line.get("label") is None:
        return record
    entities = []
    for kind, mentions in field(line, "label", dict, where).items():
        for words, places in check_kind(mentions, dict, f"the label {kind!r}", where).items():
            for pair in check_kind(places, list, f"the places of {words!r}", where):
                first, last = read_pair(pair, where)
                conversion.remark(ENDS, where, last - first + 1 != len(words))
                span = place_words(record["text"], words, first, "entities", where, conversion)
                if span:
                    entities.append((*span, kind))
    return {**record, "entities": entity_records(entities, where, conversion)}


def read_pair(pair: Any, where: str) -> Span:
    """Return the offsets of the first and the last character.

    Raises:
        SourceError: it is something else.
    """
    if not isinstance(pair, list) or [type(offset) for offset in pair] != [int, int]:
        raise SourceError(f"{where}: {shown(pair)} instead of [first, last]")
    return pair[0], pair[1]


def write_cluener(
    line: dict | None, record: dict, options: Options, conversion: Conversion
) -> dict:
    """Return a line with the predicted entities."""
    text = record["text"]
    label: dict[str, dict[str, list]] = {}
    for entity in record["entities"]:
        start, end = entity["span"]
        mentions = label.setdefault(entity["type"], {})
        mentions.setdefault(text[start:end], []).append([start, end - 1])
    return {**(line or {"id": record["id"], "text": text}), "label": label}


# ------------------------------------------------------------------------------------------- CMeEE


def read_cmeee(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of an item; which ends it has is counted."""
    record: dict[str, Any] = begin_record(line, where)
    if line.get("entities") is None:
        return record
    entities = []
    for item in objects(line, "entities", where):
        kind = field(item, "type", str, where)
        span = read_cmeee_span(record["text"], item, where, conversion)
        if span:
            entities.append((*span, kind))
    return {**record, "entities": entity_records(entities, where, conversion)}


def read_cmeee_span(text: str, item: dict, where: str, conversion: Conversion) -> Span | None:
    """Return the span of an entity; None: its words are not in the text there.

    Raises:
        SourceError: it has no words, and its offsets are outside of the text.
    """
    first, last = (field(item, f"{name}_idx", int, where) for name in ("start", "end"))
    words = item.get("entity")
    if words:
        check_kind(words, str, "the field 'entity'", where)
        behind = last - first == len(words)
        ends = "the first character behind the entity" if behind else "the last character"
        flag = f" (write.py writes such with --ends {'exclusive' if behind else 'inclusive'})"
        what = f"entities whose 'end_idx' is that of {ends}{flag}"
        odd = not behind and last - first + 1 != len(words)
        conversion.remark(ENDS if odd else what, where)
        return place_words(text, words, first, "entities", where, conversion)
    if not 0 <= first <= last < len(text):
        raise SourceError(f"{where}: an entity from {first} to {last} is not in the text")
    what = "entities without words, whose 'end_idx' was read as that of the last character"
    conversion.remark(what, where)
    return first, last + 1


def write_cmeee(line: dict | None, record: dict, options: Options, conversion: Conversion) -> dict:
    """Return an item with the predicted entities."""
    text, shift = record["text"], 0 if options.exclusive_ends else 1
    ends = "the first character behind the entity" if not shift else "the last character"
    what = f"entities written with the 'end_idx' of {ends}"
    conversion.remark(what, f"record {record['id']}", len(record["entities"]))
    items = [
        {
            "start_idx": start,
            "end_idx": end - shift,
            "type": entity["type"],
            "entity": text[start:end],
        }
        for entity in record["entities"]
        for start, end in [entity["span"]]
    ]
    return {**(line or {"text": text}), "entities": items}


# --------------------------------------------------------------------------------- labels of CLUE


def read_clue(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line of TNEWS, IFLYTEK (one sentence) or AFQMC, CMNLI (two)."""
    names = ("sentence",) if "sentence" in line else ("sentence1", "sentence2")
    if "sentence" in line and {"sentence1", "sentence2"} & line.keys():
        raise SourceError(f"{where}: both 'sentence' and 'sentence1' or 'sentence2'", "keep one")
    texts = [field(line, name, str, where) for name in names]
    name = read_id(line, "id", where) if "id" in line else text_id(*texts)
    record: dict[str, Any] = {"id": name, **dict(zip(("text_a", "text_b"), texts, strict=False))}
    if line.get("label") is None:
        return record
    if line["label"] == NO_LABEL:
        what = f"labels {NO_LABEL!r}, about which annotators did not agree, read as unlabelled"
        conversion.remark(what, where)
        return record
    return {**record, "labels": [field(line, "label", str, where)]}


def write_clue(line: dict | None, record: dict, options: Options, conversion: Conversion) -> dict:
    """Return a line with id and label, which is all that the host wants.

    Raises:
        SourceError: the text has several labels, or its label is not one of the host's.
    """
    if "label" not in record:
        raise SourceError(f"record {record['id']}: clue has one label for each text")
    label, codes = record["label"], options.types.codes
    if codes and label not in codes.values():
        if label not in codes:
            fault = f"record {record['id']}: the host's file of labels lacks {shown(label)}"
            raise SourceError(fault, "name the file of this task's labels with --schema")
        label = codes[label]
    return {"id": (line or record).get("id", record["id"]), "label": label}


def find_codes(line: dict, where: str, types: Types) -> None:
    """Add a line of the host's labels, such as `{"label": "100", "label_desc": "story"}`."""
    names = [name for name in DESCRIPTIONS if name in line]
    if not names:
        fault = f"{where}: the line has no {listed(DESCRIPTIONS)}"
        raise SourceError(fault, "name labels.json, which describes each label of the host")
    text, label = field(line, names[0], str, where), field(line, "label", str, where)
    if types.codes.setdefault(text, label) != label:
        raise SourceError(f"{where}: {shown(text)} describes two labels", "keep one of them")
