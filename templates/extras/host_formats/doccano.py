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
from extras.host_formats.source_files import SourceError, check_kind, field, objects, shown

NAMES = ("label", "labels")
FIELDS = ("id", "text", "data", *NAMES, "entities", "relations", "Comments")


def read_doccano(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line."""
    return make_record(read_document(line, where, conversion), options.task, where, conversion)


def read_document(line: dict, where: str, conversion: Conversion) -> Document:
    """Return a text with its labels, its spans and their relations."""
    text = field(line, "text" if "text" in line else "data", str, where)
    document = Document(read_id(line, "id", where) if "id" in line else text_id(text), text)
    conversion.remark("comments, left out", where, len(line.get("Comments") or []))
    if line.get("entities") is not None:
        read_entities(document, line, where)
        return document
    name = next((name for name in NAMES if line.get(name) is not None), None)
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
    base = {"id": record["id"], "text": document.text} if line is None else dict(line)
    if options.task == LABELS:
        return {**base, "label": document.labels}
    if options.task != RELATIONS:
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
