"""doccano's JSONL: spans as labels, spans with relations, or labels of whole texts.

    {"id": 1, "text": ..., "label": [[0, 9, "person"]]}
    {"id": 1, "text": ..., "entities": [{"id", "label", "start_offset", "end_offset"}],
     "relations": [{"id", "from_id", "to_id", "type"}]}
    {"id": 1, "text": ..., "label": ["positive"]}

doccano exports no words with its offsets, so these can only be checked against the text's length.
"""

from typing import Any

from extras.host_formats.documents import Document, Predicted, make_record
from extras.host_formats.options import LABELS, RELATIONS, Options
from extras.host_formats.records import Conversion, Span, read_id, text_id
from extras.host_formats.source_files import (
    SourceError,
    check_kind,
    field,
    named,
    objects,
    shown,
)

NAMES = ("label", "labels")
ANSWERS = (*NAMES, "entities", "relations")
FIELDS = ("id", "text", "data", *ANSWERS, "Comments")


def read_doccano(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line."""
    return make_record(read_document(line, where, conversion), options.task, where, conversion)


def read_document(line: dict, where: str, conversion: Conversion) -> Document:
    """Return a text with its labels, its spans and their relations."""
    text = field(line, "text" if "text" in line else "data", str, where)
    document = Document(read_id(line, "id", where) if "id" in line else text_id(text), text)
    comments = field(line, "Comments", list, where) if line.get("Comments") else []
    conversion.remark("comments, left out", where, len(comments))
    given = [name for name in ("entities", *NAMES) if line.get(name) is not None]
    for other in given[1:]:
        what = f"fields {other!r} next to {given[0]!r}, not read"
        conversion.remark(what, where, bool(line[other]))
    if "entities" in given:
        read_entities(document, line, where)
        return document
    name = next(iter(given), None)
    if name is None:
        document.labelled = False
        return document
    value = line[name]
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(item, list) and len(item) == 3 and isinstance(item[2], str):
            span = check_offsets(item[0], item[1], text, where)
            document.entities[str(number)] = span, item[2]
        elif isinstance(item, str):
            document.labels.append(item)
        else:
            raise SourceError(f"{where}: the label {shown(item)} is no [start, end, type], no text")
    return document


def read_entities(document: Document, line: dict, where: str) -> None:
    """Add the spans and relations of a line."""
    for item in objects(line, "entities", where):
        name = str(read_id(item, "id", where))
        if name in document.entities:
            fault = f"{where}: the id {named(name)} of an entity comes twice"
            raise SourceError(fault, "give each entity its own id")
        span = check_offsets(item.get("start_offset"), item.get("end_offset"), document.text, where)
        document.entities[name] = span, field(item, "label", str, where)
    for item in objects(line, "relations", where) if line.get("relations") else []:
        pair = [str(read_id(item, key, where)) for key in ("from_id", "to_id")]
        document.relations.append((field(item, "type", str, where), pair[0], pair[1]))


def check_offsets(start: Any, end: Any, text: str, where: str) -> Span:
    """Return a span inside the text.

    Raises:
        SourceError: it is none.
    """
    first, last = (check_kind(offset, int, "an offset", where) for offset in (start, end))
    if not 0 <= first < last <= len(text):
        raise SourceError(
            f"{where}: [{first}, {last}] is not in the text of {len(text)} characters"
        )
    return first, last


def write_doccano(
    line: dict | None, record: dict, options: Options, conversion: Conversion
) -> dict:
    """Return a line with the prediction, as doccano imports it."""
    document = Predicted(record, options, conversion).document
    given = {"id": record["id"], "text": document.text} if line is None else line
    # Answers of the host's line would be read instead of the prediction.
    base = {name: value for name, value in given.items() if name not in ANSWERS}
    if options.task == LABELS:
        return {**base, "label": document.labels}
    if options.task != RELATIONS and given.get("entities") is None:
        spans = [[*span, kind] for span, kind in document.entities.values()]
        return {**base, "label": spans}
    numbers = {name: number for number, name in enumerate(document.entities)}
    entities = [
        {"id": numbers[name], "label": kind, "start_offset": span[0], "end_offset": span[1]}
        for name, (span, kind) in document.entities.items()
    ]
    relations = [
        {"id": number, "from_id": numbers[one], "to_id": numbers[other], "type": predicate}
        for number, (predicate, one, other) in enumerate(document.relations)
    ]
    return {**base, "entities": entities, "relations": relations}
