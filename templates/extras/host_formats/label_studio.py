"""Label Studio's JSON, JSON_MIN and CSV exports: spans, relations between them, and choices.

A task has `data` and `annotations`, each with a list `result` of regions; JSON_MIN and CSV have one
field for each control instead, and no relations. Newer versions count characters, older ones the
UTF-16 units of JavaScript, in which an emoji has two; the words of a span tell which it is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extras.host_formats.documents import Document, Predicted, make_record
from extras.host_formats.options import LABELS, Options
from extras.host_formats.records import (
    ENDS,
    Conversion,
    Span,
    place_words,
    read_id,
    read_table,
    text_id,
)
from extras.host_formats.source_files import (
    SourceError,
    check_kind,
    field,
    objects,
    read_json_objects,
    shown,
)

UTF16 = "offsets in UTF-16 units, in which an emoji has two, read as characters"
# Fields of an export that are about the work, not about the text.
ABOUT_WORK = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
TEXT = "text"  # the usual name of the field with the text
LONGEST_DOCUMENT = 2**31 - 1  # characters of a cell of CSV
# Those that only an annotated task has.
WORK_WAS_DONE = {"annotator", "annotation_id", "lead_time"}


def open_label_studio(path: Path) -> Iterator[tuple[str, dict]]:
    """Yield `(place, task)`; a CSV's cell that holds a JSON list is one."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        yield from read_json_objects(path)
        return
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = read_table(path, Conversion(), delimiter, LONGEST_DOCUMENT)
    _, header = next(rows, ("", []))
    if len({*header}) < len(header):
        raise SourceError(f"{path}, line 1: two columns have the same name", "rename one")
    for where, cells in rows:
        if len(cells) != len(header):
            raise SourceError(f"{where}: not as many cells as the header has")
        row = zip(header, cells, strict=True)
        # An empty cell may be that of the text: else another column would be taken for it.
        kept = ((name, cell) for name, cell in row if cell != "" or name not in ABOUT_WORK)
        yield where, {name: open_cell(name, cell) for name, cell in kept}


def open_cell(name: str, cell: str) -> Any:
    """Return what a cell holds: a list of objects, `{"choices": [...]}`, or its text."""
    if name != TEXT and cell[:2] in ("[{", "[]", '{"'):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell
    return cell


def shared_task(task: dict, where: str, options: Options) -> str | None:
    """Return id and text of a task of JSON_MIN or CSV, which has a row for each annotation."""
    if "data" in task or not {"id", "annotation_id"} <= task.keys():
        return None
    return json.dumps([str(task["id"]), task[find_text(task, options.text_field, where)]])


# ------------------------------------------------------------------------------------------ reading


def read_label_studio(task: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a task."""
    document = read_document(task, where, options, conversion)
    # In a table without fields about the work a choice says that somebody looked at the text.
    document.labelled |= options.task == LABELS and bool(document.labels)
    return make_record(document, options.task, where, conversion)


def read_document(task: dict, where: str, options: Options, conversion: Conversion) -> Document:
    """Return a text with what was marked in it.

    Raises:
        SourceError: labels of the text come from several controls, and no option names one.
    """
    data = field(task, "data", dict, where) if "data" in task else task
    name_of_text = find_text(data, options.text_field, where)
    text = data[name_of_text]
    document = Document(read_id(task, "id", where) if "id" in task else text_id(text), text)
    if "data" not in task:
        controls = {n: value for n, value in data.items() if n != name_of_text and value != ""}
        read_controls(document, controls, options, where, conversion)
        return document
    for name in ("completions", "predictions"):
        conversion.remark(f"fields {name!r}, not read", where, bool(task.get(name)))
    given = objects(task, "annotations", where) if task.get("annotations") else []
    kept = [one for one in given if not one.get("was_cancelled")]
    what = "cancelled annotations, left out"
    conversion.remark(what, where, len(given) - len(kept))
    what = "second and further annotations of a task, left out"
    conversion.remark(what, where, max(0, len(kept) - 1))
    document.labelled = bool(kept)
    if kept:
        read_regions(document, objects(kept[0], "result", where), options, where, conversion)
    return document


def choose_control(names: list[str], options: Options, where: str) -> str:
    """Return the control, or column, whose labels are those of the text; empty: there is none.

    Raises:
        SourceError: there are several, and no option names one.
    """
    found = list(dict.fromkeys(names))
    if options.label_field or options.task != LABELS:
        return options.label_field
    if len(found) > 1:
        fault = f"{where}: labels of the text in {', '.join(map(repr, found))}"
        raise SourceError(fault, "name the one to read with --label-field")
    return "".join(found)


def find_text(data: dict, text_field: str, where: str) -> str:
    """Return the field that holds the text.

    Raises:
        SourceError: it is missing, or several fields are texts.
    """
    texts = [name for name, value in data.items() if isinstance(value, str)]
    own = [name for name in texts if name not in ABOUT_WORK]
    filled = [name for name in own if data[name]]
    # An empty field before the only other one may be the text.
    known = len(filled) == 1 and filled == own[:1]
    wanted = text_field or (TEXT if TEXT in texts else filled[0] if known else "")
    if wanted not in texts:
        fault = f"{where}: which field is the text? It has {', '.join(map(repr, data)) or 'none'}"
        raise SourceError(fault, "name it with --text-field")
    return wanted


def read_controls(
    document: Document, data: dict, options: Options, where: str, conversion: Conversion
) -> None:
    """Add what JSON_MIN and CSV have: a list of spans, a choice, or `{"choices": [...]}`."""
    document.labelled = bool(WORK_WAS_DONE & data.keys())
    own = {name: value for name, value in data.items() if name not in ABOUT_WORK}
    choices = {
        name
        for name, value in own.items()
        if isinstance(value, str) or isinstance(value, dict) and "choices" in value
    }
    chosen = choose_control([name for name in own if name in choices], options, where)
    for name, value in own.items():
        if chosen and name in choices and name != chosen:
            conversion.remark(f"fields {name!r}, left out", where)
            continue
        if isinstance(value, list) and all(is_span(item) for item in value):
            document.labelled = True
            for number, item in enumerate(value):
                add_spans(document, f"{name} {number}", item, where, conversion)
        elif isinstance(value, dict) and "choices" in value:
            document.labelled = True
            document.labels += read_names(value, "choices", where)
        elif isinstance(value, str):
            conversion.remark(f"fields {name!r}, read as labels of whole texts", where)
            document.labels.append(value)
        else:
            conversion.remark(f"fields {name!r}, left out", where)


def read_names(holder: dict, name: str, where: str) -> list[str]:
    """Return a field that is a list of names; raises as `field` does."""
    names = field(holder, name, list, where)
    return [check_kind(one, str, f"an item of {name!r}", where) for one in names]


def is_span(item: Any) -> bool:
    """Return whether an item of a field is a span of JSON_MIN or CSV."""
    return isinstance(item, dict) and {"start", "end"} <= item.keys()


def read_regions(
    document: Document, regions: list[dict], options: Options, where: str, conversion: Conversion
) -> None:
    """Add the regions of an annotation: spans, choices, and relations between spans."""
    controls = [
        str(region.get("from_name", ""))
        for region in regions
        if region.get("type") == "choices" and not is_span(region.get("value"))
    ]
    chosen = choose_control(controls, options, where)
    for number, region in enumerate(regions):
        kind = region.get("type")
        if kind in ("labels", "hypertextlabels"):
            name = str(region.get("id") or number)
            add_spans(document, name, field(region, "value", dict, where), where, conversion)
        elif kind == "choices":
            value = field(region, "value", dict, where)
            if is_span(value):
                conversion.remark("choices for a span, left out", where)
            elif chosen and str(region.get("from_name", "")) != chosen:
                conversion.remark("choices of other controls, left out", where)
            else:
                document.labels += read_names(value, "choices", where)
        elif kind != "relation":
            conversion.remark(f"regions of the type {shown(kind)}, left out", where)
    for region in regions:
        if region.get("type") == "relation":
            add_relation(document, region, where, conversion)


def add_spans(
    document: Document, name: str, value: dict, where: str, conversion: Conversion
) -> None:
    """Add a region: an entity of its first label; further labels are entities of their own."""
    control = "labels" if value.get("labels") else "hypertextlabels"
    if not value.get(control):
        conversion.remark("spans without a label, left out", where)
        return
    kinds = read_names(value, control, where)
    span = read_offsets(document.text, value, where, conversion)
    if span is None:
        return
    for kind in kinds:
        # Relations name the first entity of an id, which the regions of several controls share.
        taken = name in document.entities
        key = f"{name} {len(document.entities)}" if taken else name
        document.entities[key] = span, kind


def read_offsets(text: str, value: dict, where: str, conversion: Conversion) -> Span | None:
    """Return the span of a region in characters; None: its words are not in the text there.

    Raises:
        SourceError: a region without words is outside of the text.
    """
    start, end = (whole(value.get(name), where) for name in ("start", "end"))
    length = end - start
    words = value.get("text")
    if not isinstance(words, str) or not words:
        conversion.remark("spans without words, whose offsets were read as characters", where)
        if not 0 <= start < end <= len(text):
            raise SourceError(f"{where}: [{start}, {end}] is not in the text")
        return start, end
    characters = [count_characters(text, offset) for offset in (start, end)]
    for first, last in ((start, end), characters):
        if escape_line_ends(text[max(first, 0) : last]) == words:
            words = text[first:last]
            break
    if not text.startswith(words, start) and text.startswith(words, characters[0]):
        conversion.remark(UTF16, where)
        start = characters[0]
    found = place_words(text, words, start, "spans", where, conversion)
    odd = found is not None and length not in (len(words), length_in_utf16(words))
    conversion.remark(ENDS, where, odd)
    return found


def count_characters(text: str, units: int) -> int:
    """Return how many characters of a text its first UTF-16 units are."""
    units = max(units, 0)  # at least as many as characters
    encoded = text[:units].encode("utf-16-le", "surrogatepass")
    return len(encoded[: 2 * units].decode("utf-16-le", errors="ignore"))


def escape_line_ends(text: str) -> str:
    """Return a text as Label Studio keeps the words of a span, without line ends."""
    return text.replace("\r", "\\n").replace("\n", "\\n")


def length_in_utf16(text: str) -> int:
    """Return the UTF-16 units of a text."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def whole(offset: Any, where: str) -> int:
    """Return an offset, which older versions write as a string.

    Raises:
        SourceError: it is none, such as the path to a part of a page.
    """
    if isinstance(offset, str) and offset.isdecimal():
        return int(offset)
    if isinstance(offset, str) and offset.startswith("/"):
        fault = f"{where}: the offset {shown(offset)} is in a part of a page of HTML"
        raise SourceError(fault, "annotate plain text, which has offsets of its own")
    return check_kind(offset, int, "an offset", where)


def add_relation(document: Document, region: dict, where: str, conversion: Conversion) -> None:
    """Add a relation: from left to right, unless its direction is `left`."""
    pair = [str(field(region, name, str, where)) for name in ("from_id", "to_id")]
    if any(name not in document.entities for name in pair):
        conversion.remark("relations of spans that were left out, left out too", where)
        return
    direction = region.get("direction", "right")
    if direction == "left":
        pair.reverse()
    elif direction == "bi":
        conversion.remark("relations of both directions, read from left to right", where)
    kinds = read_names(region, "labels", where) if region.get("labels") else []
    conversion.remark("relations without a label, left out", where, not kinds)
    for kind in kinds:
        document.relations.append((kind, pair[0], pair[1]))


# ------------------------------------------------------------------------------------------ writing


def write_label_studio(
    task: dict | None, record: dict, options: Options, conversion: Conversion
) -> dict:
    """Return a task with the prediction, as Label Studio imports it: offsets count characters.

    Controls are called `label`, `relation` and `choice`, the text is `text`.
    """
    document = Predicted(record, options, conversion).document
    data = {"text": document.text}
    if task is not None:
        data = task.get("data") or {n: v for n, v in task.items() if isinstance(v, str)}
    shared = {"to_name": "text"}
    regions: list[dict] = [
        {
            "id": name,
            "from_name": "label",
            **shared,
            "type": "labels",
            "value": {
                "start": start,
                "end": end,
                "text": document.text[start:end],
                "labels": [kind],
            },
        }
        for name, ((start, end), kind) in document.entities.items()
    ]
    regions += [
        {"type": "relation", "from_id": one, "to_id": other, "direction": "right", "labels": [kind]}
        for kind, one, other in document.relations
    ]
    if options.task == LABELS:
        value = {"choices": document.labels}
        regions.append({"from_name": "choice", **shared, "type": "choices", "value": value})
    number = record["id"] if task is None else task.get("id", record["id"])
    return {"id": number, "data": data, "predictions": [{"result": regions}]}
