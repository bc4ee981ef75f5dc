"""Every format: how its files are opened, read and written; and the whole way of a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extras.host_formats import (
    brat,
    chinese_entities,
    doccano,
    docred,
    documents,
    duie,
    label_studio,
)
from extras.host_formats.brat import brat_files, open_brat, read_brat, write_brat
from extras.host_formats.chinese_entities import (
    read_clue,
    read_cluener,
    read_cmeee,
    write_clue,
    write_cluener,
    write_cmeee,
)
from extras.host_formats.columns import columns_text, open_columns, read_columns, write_columns
from extras.host_formats.doccano import read_doccano, write_doccano
from extras.host_formats.docred import read_docred, write_docred
from extras.host_formats.duee import read_duee, write_duee
from extras.host_formats.duie import read_duie, write_duie
from extras.host_formats.label_studio import (
    open_label_studio,
    read_label_studio,
    write_label_studio,
)
from extras.host_formats.options import (
    ENTITIES,
    EVENTS,
    LABELS,
    RELATIONS,
    TASKS,
    Options,
    Types,
    listed,
)
from extras.host_formats.records import Conversion, read_id, with_distinct_ids
from extras.host_formats.semeval import (
    open_semeval,
    read_semeval,
    semeval_text,
    write_semeval,
)
from extras.host_formats.source_files import (
    SourceError,
    check_kind,
    field,
    named,
    read_json_objects,
    shown,
)

# What a labelled record of a task has.
ANSWERS = {
    RELATIONS: ("triples",),
    EVENTS: ("events",),
    ENTITIES: ("entities",),
    LABELS: ("label", "labels"),
}


def json_lines(items: list[dict]) -> str:
    """Return an object on each line."""
    return "".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in items)


def json_list(items: list[dict]) -> str:
    """Return a list of objects, indented."""
    return json.dumps(items, ensure_ascii=False, indent=1) + "\n"


def json_relations(documents: list[list[dict]]) -> str:
    """Return one list of the relations of all documents."""
    return json_list([relation for document in documents for relation in document])


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        tasks: those whose records it can hold.
        read: from a source, its place, options and a conversion to a record.
        write: from a source or None, a prediction, options and a conversion to a source.
        open: from a file to `(place, source)` of each record.
        encode: from the sources of a submission to its content, or to path -> content.
        fields: of a source, those that are read, or are known to say nothing; none: all are.
        named_by: the field by which the host finds a record of a submission; empty: by its place.
        shared: from a source, its place and options to the fields that it shares with others of
            which only the first is read; None: it shares none.
    """

    tasks: tuple[str, ...]
    read: Callable[[Any, str, Options, Conversion], dict]
    write: Callable[[Any, dict, Options, Conversion], Any]
    open: Callable[[Path], Iterator[tuple[str, Any]]] = read_json_objects
    encode: Callable[[list], str | dict[str, str]] = json_lines
    fields: tuple[str, ...] = ()
    named_by: str = ""
    shared: Callable[[Any, str, Options], str | None] = lambda source, where, options: None


FORMATS = {
    "duie": Format((RELATIONS,), read_duie, write_duie, fields=("id", "text", "spo_list")),
    "duee": Format(
        (EVENTS,), read_duee, write_duee, fields=("id", "text", "event_list"), named_by="id"
    ),
    "cluener": Format((ENTITIES,), read_cluener, write_cluener, fields=("id", "text", "label")),
    "clue": Format(
        (LABELS,),
        read_clue,
        write_clue,
        fields=("id", "sentence", "sentence1", "sentence2", "label"),
        named_by="id",
    ),
    "semeval": Format((LABELS,), read_semeval, write_semeval, open_semeval, semeval_text),
    "cmeee": Format(
        (ENTITIES,), read_cmeee, write_cmeee, encode=json_list, fields=("id", "text", "entities")
    ),
    "docred": Format(
        (RELATIONS,),
        read_docred,
        write_docred,
        encode=json_relations,
        fields=docred.FIELDS,
        named_by="title",
    ),
    "brat": Format((ENTITIES, RELATIONS, EVENTS), read_brat, write_brat, open_brat, brat_files),
    "doccano": Format(
        (ENTITIES, RELATIONS, LABELS), read_doccano, write_doccano, fields=doccano.FIELDS
    ),
    "label_studio": Format(
        (ENTITIES, RELATIONS, LABELS),
        read_label_studio,
        write_label_studio,
        open_label_studio,
        json_list,
        shared=label_studio.shared_task,
    ),
    "conll": Format((ENTITIES,), read_columns, write_columns, open_columns, columns_text),
}


def choose_format(name: str, task: str) -> Format:
    """Return a format.

    Raises:
        SourceError: there is none of this name, or it can't hold the records of the task.
    """
    if name not in FORMATS:
        raise SourceError(f"no format {name!r}", f"name {listed(FORMATS)}")
    if task not in FORMATS[name].tasks:
        held = listed(FORMATS[name].tasks)
        if task not in TASKS:
            raise SourceError(f"no task {task!r}", f"name {listed(TASKS)}")
        raise SourceError(
            f"{name} holds records of {held}, and not of {task}", "name another format"
        )
    return FORMATS[name]


# ------------------------------------------------------------------------------------------ reading


def read_sources(
    name: str, path: Path, options: Options, conversion: Conversion
) -> tuple[list[Any], list[dict]]:
    """Read a file of a host: its sources and the record of each, in order.

    Raises:
        SourceError: the file is not of this format, or holds no record.
    """
    form = choose_format(name, options.task)
    sources, found = [], []
    shared: set[str] = set()
    for where, source in form.open(path):
        same = form.shared(source, where, options)
        if same in shared:
            conversion.remark("second and further annotations of a text, left out", where)
            continue
        shared |= {same} if same is not None else set()
        sources.append(source)
        for name_of_field in sorted(source.keys() - {*form.fields}) if form.fields else ():
            conversion.remark(f"fields {name_of_field!r}, not read", where)
        record = form.read(source, where, options, conversion)
        blank = not any(str(record.get(name) or "").strip() for name in ("text", "text_a"))
        conversion.remark("records with a blank text", where, blank)
        found.append((where, check_characters(record, where)))
    if not found:
        raise SourceError(f"{path} holds no record", f"is its format {name}? Check it")
    records = list(with_distinct_ids(found, conversion))
    documents.settle_labels(records, [where for where, _ in found], options.several, conversion)
    for (where, _), record in zip(found, records, strict=True):
        if not any(answer in record for answer in ANSWERS[options.task]):
            conversion.remark("unlabelled records, which only predict.py reads", where)
    return sources, records


def check_characters(record: dict, where: str) -> dict:
    """Return a record whose characters are whole.

    Raises:
        SourceError: it has half of one, which JSON may write as an escape.
    """
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        fix = "write both halves, or the character itself"
        raise SourceError(f"{where}: {half} is half of a character", fix) from error
    return record


def read_types(name: str, path: Path, options: Options, conversion: Conversion) -> Types:
    """Return the types of entities in a labelled file, or in the schema of DuIE."""
    types = Types()
    for where, source in choose_format(name, options.task).open(path):
        if name == "duie":
            duie.find_types(source, where, types)
        elif name == "clue":
            chinese_entities.find_codes(source, where, types)
        elif name == "brat":
            documents.find_types(brat.read_document(source, where, conversion), where, types)
        elif name == "doccano":
            documents.find_types(doccano.read_document(source, where, conversion), where, types)
        elif name == "label_studio":
            read = label_studio.read_document(source, where, options, conversion)
            documents.find_types(read, where, types)
        else:
            raise SourceError(f"a submission of {name} has no types", "leave --schema out")
    if not types.subjects and not types.roles and not types.codes:
        raise SourceError(f"{path} names no type of an entity", "name a labelled file")
    return types


# ------------------------------------------------------------------------------------------ writing


def write_sources(
    name: str,
    predictions: Sequence[tuple[str, dict]],
    texts: Path | None,
    options: Options,
    conversion: Conversion,
) -> list[Any]:
    """Return the sources of a submission, in the order of the host's file.

    Args:
        name: of the format.
        predictions: `(place, record)` of a predictions file.
        texts: the host's file without answers; None: the submission has what predictions hold.
        options: as they were for reading this file.
        conversion: counts what the format can't hold.

    Raises:
        SourceError: records are missing, repeated or unknown, a text differs, or a span is no part
            of its text.
    """
    form = choose_format(name, options.task)
    by_id: dict[str, tuple[str, dict]] = {}
    for where, record in predictions:
        read_id(record, "id", where)
        if by_id.setdefault(str(record.get("id")), (where, record)) != (where, record):
            raise SourceError(f"{where}: id {named(record.get('id', ''))} comes twice", "keep one")
    if texts is None:
        given: Iterable[tuple[Any, dict]] = [(None, record) for _, record in predictions]
    else:
        sources, records = read_sources(name, texts, options, Conversion())
        if form.named_by:
            check_names(form.named_by, form.open(texts))
        given = zip(sources, records, strict=True)
        check_ids(by_id, [str(record["id"]) for record in records], texts)
    written = []
    for source, record in given:
        where, prediction = by_id[str(record["id"])]
        checked = check_prediction(prediction, record, options.task, where)
        written.append(form.write(source, checked, options, conversion))
    return written


def check_names(name: str, placed: Iterable[tuple[str, dict]]) -> None:
    """Check that the host can tell the records of its own file apart in a submission.

    Args:
        name: the field that names a record.
        placed: `(place, source)` of the host's file.

    Raises:
        SourceError: a record has no name, or the name of another one.
    """
    seen: set[str] = set()
    for where, source in placed:
        own = str(source.get(name, ""))
        if not own:
            fix = "take the host's own file to predict"
            raise SourceError(f"{where}: no {name}, by which the host finds the answer", fix)
        if own in seen:
            raise SourceError(f"{where}: the {name} {named(own)} comes twice", "keep one record")
        seen.add(own)


def check_ids(by_id: dict[str, tuple[str, dict]], wanted: list[str], texts: Path) -> None:
    """Check that predictions are those of the records of a file.

    Raises:
        SourceError: they are not.
    """
    missing = [name for name in wanted if name not in by_id]
    unknown = by_id.keys() - {*wanted}
    if missing or unknown:
        first = missing[0] if missing else min(unknown)
        raise SourceError(
            f"the predictions lack {len(missing)} of {len(wanted)} records of {texts}, and have"
            f" {len(unknown)} that it lacks ({named(first)} for one)",
            "predict the records that were read from this file, with the same options",
        )


def check_prediction(prediction: dict, record: dict, task: str, where: str) -> dict:
    """Return a prediction with the text of its record, after checking its spans.

    Raises:
        SourceError: it is no prediction of the task, its text differs, or a span is outside of it.
    """
    text = record.get("text", record.get("text_a"))
    own = prediction.get("text", prediction.get("text_a", text))
    if not any(answer in prediction for answer in ANSWERS[task]):
        raise SourceError(f"{where}: not a prediction of {task}", "write the file with predict.py")
    if own is None:
        raise SourceError(f"{where}: the text is missing", "name the host's file with --texts")
    check_kind(own, str, "the text", where)
    if text is not None and own != text:
        raise SourceError(
            f"{where}: the text differs from that of the host's file",
            "predict the records that were read from this file",
        )
    if task != LABELS:
        check_spans(prediction, own, where)
    for name in names_of(prediction, task, where):
        if not isinstance(name, str) or not name:
            fault = f"{where}: {shown(name)} is no name of a type, a role or a label"
            raise SourceError(fault, "write the file with predict.py")
    return {**prediction, "text": own}


def check_spans(prediction: dict, text: str, where: str) -> None:
    """Check that all spans of a prediction are in its text, and read as it says.

    Raises:
        SourceError: one is not.
    """
    for span, words in spans_of(prediction, where):
        good = isinstance(span, list) and [type(offset) for offset in span] == [int, int]
        if not good or not 0 <= span[0] < span[1] <= len(text):
            raise SourceError(f"{where}: {shown(span)} is no span of its text", "predict again")
        if words is not None and text[slice(*span)] != words:
            raise SourceError(f"{where}: {shown(words)} is not the text at {span}", "predict again")


def spans_of(prediction: dict, where: str) -> list[tuple[Any, str | None]]:
    """Return each span of a prediction with the words that it should have; None: it says none.

    Raises:
        SourceError: it is no prediction.
    """
    try:
        found = [(item["span"], item.get("text")) for item in prediction.get("entities", [])]
        for triple in prediction.get("triples", []):
            found += [(triple[end], triple.get(f"{end}_text")) for end in ("subject", "object")]
        for event in prediction.get("events", []):
            found += [(event["trigger"], event.get("trigger_text"))] if event["trigger"] else []
            found += [(part["span"], part.get("text")) for part in event["arguments"]]
    except (AttributeError, KeyError, TypeError) as error:
        raise SourceError(f"{where}: not a prediction", "write it with predict.py") from error
    return found


def names_of(prediction: dict, task: str, where: str) -> list[Any]:
    """Return each type, predicate, role and label of a prediction; None: one is missing.

    Raises:
        SourceError: the answer is no list.
    """
    if task == LABELS and "labels" not in prediction:
        return [prediction["label"]]
    answer = "labels" if task == LABELS else ANSWERS[task][0]
    items = field(prediction, answer, list, where)
    if task == LABELS:
        return items
    names = [item.get("predicate" if task == RELATIONS else "type") for item in items]
    parts = [part for item in items for part in item.get("arguments", [])]
    return names + [part.get("role") for part in parts]
