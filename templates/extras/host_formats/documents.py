"""Texts with entities, relations, events and labels, as annotation tools hold them.

A record has only what its task needs; the rest is counted. A prediction becomes such a text again.
"""

from dataclasses import dataclass, field
from typing import Any

from extras.host_formats.options import (
    ENTITIES,
    ENTITY,
    EVENTS,
    LABELS,
    RELATIONS,
    Options,
    Types,
    count_type,
    usual_type,
)
from extras.host_formats.records import (
    Argument,
    Conversion,
    Event,
    Span,
    Triple,
    entity_records,
    event_records,
    triple_records,
)
from extras.host_formats.source_files import SourceError

NOT_READ = {
    RELATIONS: "relations of entities",
    EVENTS: "events",
    LABELS: "labels of whole texts",
}


@dataclass
class Document:
    """One text with what somebody marked in it.

    Attributes:
        name: its id.
        text: all of it.
        labelled: whether somebody looked at it: then there may be nothing to mark.
        entities: name -> span and type.
        relations: `(predicate, name of the subject, name of the object)`.
        events: `(type, name of the trigger or None, [(role, name), ...])`.
        labels: of the whole text.
    """

    name: str | int
    text: str
    labelled: bool = True
    entities: dict[str, tuple[Span, str]] = field(default_factory=dict)
    relations: list[tuple[str, str, str]] = field(default_factory=list)
    events: list[tuple[str, str | None, list[tuple[str, str]]]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def span(self, name: str, where: str) -> Span:
        """Return the span of an entity.

        Raises:
            SourceError: there is none of that name.
        """
        if name not in self.entities:
            raise SourceError(f"{where}: there is no entity {name!r}")
        return self.entities[name][0]


def make_record(document: Document, task: str, where: str, conversion: Conversion) -> dict:
    """Return the record of a text for a task; what the task has no place for is counted."""
    start = {"id": document.name}
    texts = {"text_a" if task == LABELS else "text": document.text}
    if not document.labelled:
        return {**start, **texts}
    given: dict[str, list] = {
        RELATIONS: document.relations,
        EVENTS: document.events,
        LABELS: document.labels,
    }
    for other, items in given.items():
        if other != task:
            conversion.remark(f"{NOT_READ[other]}, left out", where, len(items))
    make = {
        ENTITIES: make_entities,
        RELATIONS: make_triples,
        EVENTS: make_events,
        LABELS: make_labels,
    }
    return {**start, **texts, **make[task](document, where, conversion)}


def make_entities(document: Document, where: str, conversion: Conversion) -> dict:
    """Return the entities; the triggers of events are none."""
    triggers = {trigger for _, trigger, _ in document.events}
    entities = [
        (*span, kind) for name, (span, kind) in document.entities.items() if name not in triggers
    ]
    left_out = len(document.entities) - len(entities)
    conversion.remark("triggers of events, left out", where, left_out)
    return {"entities": entity_records(entities, where, conversion)}


def make_triples(document: Document, where: str, conversion: Conversion) -> dict:
    """Return the relations; an entity without one is counted."""
    triples: list[Triple] = [
        (*document.span(subject, where), predicate, *document.span(object_, where))
        for predicate, subject, object_ in document.relations
    ]
    used = {name for _, *pair in document.relations for name in pair}
    unused = document.entities.keys() - used
    conversion.remark("entities of no relation, left out", where, len(unused))
    return {"triples": triple_records(triples, where, conversion)}


def make_events(document: Document, where: str, conversion: Conversion) -> dict:
    """Return the events; an entity of no event is counted."""
    events: list[Event] = []
    used: set[str | None] = set()
    for kind, trigger, parts in document.events:
        spans: list[Argument] = [(*document.span(name, where), role) for role, name in parts]
        arguments = tuple(sorted(conversion.distinct(spans, "arguments", where)))
        events.append((document.span(trigger, where) if trigger else (), kind, arguments))
        used |= {trigger, *(name for _, name in parts)}
    conversion.remark("entities of no event, left out", where, len(document.entities.keys() - used))
    return {"events": event_records(conversion.distinct(events, "events", where))}


def make_labels(document: Document, where: str, conversion: Conversion) -> dict:
    """Return the labels, each once; `settle_labels` turns a single one into `label`."""
    conversion.remark("entities, left out", where, len(document.entities))
    return {"labels": list(dict.fromkeys(document.labels))}


def settle_labels(
    records: list[dict], places: list[str], several: bool | None, conversion: Conversion
) -> None:
    """Write `label` in all records of a file if its texts have one label each.

    Args:
        records: of the file; `labels` are all of a text.
        places: of the records.
        several: whether a text may have any number of labels; None: if one has several, or all have
            none. A text without a label is unlabelled where others have one.
        conversion: counts such texts.

    Raises:
        SourceError: a text has several labels, and was to have one.
    """
    labelled = [pair for pair in zip(records, places, strict=True) if "labels" in pair[0]]
    most = max((len(record["labels"]) for record, _ in labelled), default=0)
    if several or several is None and most != 1:
        return
    for record, where in labelled:
        labels = record.pop("labels")
        if len(labels) > 1:
            raise SourceError(f"{where}: {len(labels)} labels", "leave out --labels one")
        what = "texts without a label, read as unlabelled: with --labels several they have none"
        conversion.remark(what, where, not labels)
        if labels:
            record["label"] = labels[0]


def find_types(document: Document, where: str, types: Types) -> None:
    """Count the types of entities that relations and events join."""

    def type_of(name: str) -> str:
        document.span(name, where)
        return document.entities[name][1]

    for predicate, subject, object_ in document.relations:
        count_type(types.subjects, predicate, type_of(subject))
        count_type(types.objects, predicate, type_of(object_))
    for kind, _, parts in document.events:
        for role, name in parts:
            count_type(types.roles, (kind, role), type_of(name))


class Predicted:
    """A prediction as a `Document`: each span of a type is an entity, named T1, T2, and so on.

    Args:
        record: of a predictions file.
        options: `task`, `types`.
        conversion: counts the entities whose type no file names.
    """

    def __init__(self, record: dict, options: Options, conversion: Conversion) -> None:
        self.document = Document(record["id"], record.get("text", record.get("text_a", "")))
        self.where, self.conversion = f"record {record['id']}", conversion
        self.types, self.names = options.types, dict[Any, str]()
        add = {
            ENTITIES: self.add_entities,
            RELATIONS: self.add_triples,
            EVENTS: self.add_events,
            LABELS: self.add_labels,
        }
        add[options.task](record)

    def entity(self, span: list[int], kind: str | None, apart: object = None) -> str:
        """Return the name of an entity; triggers are `apart`, one for each event."""
        if kind is None:
            kind = ENTITY
            what = f"entities of the type {ENTITY!r}: name a labelled file with --schema"
            self.conversion.remark(what, self.where)
        key = (*span, kind, apart)
        if key not in self.names:
            self.names[key] = f"T{len(self.names) + 1}"
            self.document.entities[self.names[key]] = ((span[0], span[1]), kind)
        return self.names[key]

    def add_entities(self, record: dict) -> None:
        """Add the entities of a record."""
        for item in record["entities"]:
            self.entity(item["span"], item["type"])

    def add_triples(self, record: dict) -> None:
        """Add relations, and the entities that they join."""
        for triple in record["triples"]:
            predicate = triple["predicate"]
            subject = self.entity(triple["subject"], usual_type(self.types.subjects, predicate))
            object_ = self.entity(triple["object"], usual_type(self.types.objects, predicate))
            self.document.relations.append((predicate, subject, object_))

    def add_events(self, record: dict) -> None:
        """Add events, with their triggers and arguments."""
        for number, event in enumerate(record["events"]):
            kind, trigger = event["type"], None
            if event["trigger"]:
                trigger = self.entity(event["trigger"], kind, number)
            parts = [
                (part["role"], self.entity(part["span"], self.type_of_role(kind, part["role"])))
                for part in event["arguments"]
            ]
            self.document.events.append((kind, trigger, parts))

    def type_of_role(self, kind: str, role: str) -> str | None:
        """Return the type of an argument."""
        return usual_type(self.types.roles, (kind, role))

    def add_labels(self, record: dict) -> None:
        """Add the labels of a record."""
        self.document.labels = record["labels"] if "labels" in record else [record["label"]]
