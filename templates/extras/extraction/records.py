"""A common form of triples and events, and the records of their templates.

Fields, rules and messages are those of relation extraction and event extraction, so this module can
read their files, and they can read its predictions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.base.errors import InputError
from core.data.records import (
    Id,
    Span,
    check_span,
    read_annotated,
    read_field,
    read_records,
    read_span,
)

FIELDS = {
    "triples": ("id", "text", "triples", "annotated_predicates", "subject", "predicate", "object"),
    "events": ("id", "text", "events", "type", "trigger", "arguments", "role", "span"),
}
# A span with its role; the role of a trigger is None.
Node = tuple[str | None, Span]


@dataclass(frozen=True)
class Item:
    """A triple or an event.

    Attributes:
        name: the predicate, or the type of the event.
        nodes: subject and object; or the trigger, if there is one, and the sorted arguments.
    """

    name: str
    nodes: tuple[Node, ...]

    @property
    def place(self) -> tuple:
        """The sort key of items: their places in the text, the trigger first."""
        trigger = [span for role, span in self.nodes if role is None]
        others = [(span, role) for role, span in self.nodes if role is not None]
        if self.nodes[0][0] != "subject":
            others.sort()
        return trigger or [others[0][0]], others, self.name


@dataclass(frozen=True)
class Example:
    """One record of a file.

    `targets` is the text of its items, or empty for a record to predict, which is not `labelled`.
    `annotated` is None if the record is annotated for all predicates.
    """

    id: Id
    source: str
    targets: tuple[str, ...]
    line: int
    items: tuple[Item, ...]
    labelled: bool
    annotated: frozenset[str] | None = None
    weight: float = 1.0


def make_event(name: str, nodes: Iterable[Node]) -> Item:
    """Return an event; a repeated argument counts once."""
    every = dict.fromkeys(nodes)
    trigger = [node for node in every if node[0] is None]
    arguments = [(role, span) for role, span in every if role is not None]
    return Item(name, (*trigger, *sorted(arguments)))


def read_examples(path: str | Path, kind: str, require: bool) -> list[Example]:
    """Read a JSON Lines file and check every field; the examples have no targets yet.

    Args:
        path: records of relation extraction, or of event extraction.
        kind: "triples" or "events".
        require: False for files to predict, which may lack items.

    Raises:
        InputError: a record is invalid; the message names file and line.
    """
    read_one = partial(read_example, kind=kind, require=require)
    return list(read_records(path, FIELDS[kind], read_one))


def read_example(record: dict, line: int, kind: str, require: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    read_item = read_triple if kind == "triples" else read_event
    wanted = require or record.get(kind) is not None
    items = [read_item(item, text) for item in read_field(record, kind, list)] if wanted else []
    names = [item.name for item in items]
    annotated = read_annotated(record, names) if kind == "triples" else None
    own = None if annotated is None else frozenset(annotated)
    name = read_field(record, "id", Id)
    return Example(name, text, (), line, tuple(dict.fromkeys(items)), wanted, own)


def read_triple(item: object, text: str) -> Item:
    """Check one triple."""
    if not isinstance(item, dict):
        raise InputError(
            f'the triple {item!r} must be {{"subject": [start, end], "predicate": "...", '
            '"object": [start, end]}.'
        )
    subject, predicate = read_span(item, "subject", text), read_field(item, "predicate", str)
    return Item(predicate, (("subject", subject), ("object", read_span(item, "object", text))))


def read_event(item: object, text: str) -> Item:
    """Check one event."""
    if not isinstance(item, dict):
        raise InputError(
            f'the event {item!r} must be {{"type": "...", "trigger": [start, end] or null, '
            '"arguments": [...]}.'
        )
    kind, trigger = read_field(item, "type", str), read_field(item, "trigger", object)
    nodes: list[Node] = [] if trigger is None else [(None, check_span(trigger, "trigger", text))]
    for argument in read_field(item, "arguments", list):
        if not isinstance(argument, dict):
            raise InputError(
                f'the argument {argument!r} must be {{"role": "...", "span": [start, end]}}.'
            )
        nodes.append((read_field(argument, "role", str), read_span(argument, "span", text)))
    if not nodes:
        raise InputError(
            f"the event of type {kind!r} has neither a trigger nor an argument: no words of the "
            "text express it, so drop it."
        )
    return make_event(kind, nodes)


# ------------------------------------------------------------------------- predictions


def describe_items(items: Sequence[Item], text: str, kind: str, score: float) -> list[dict]:
    """Return items for a predictions file: offsets and words.

    Args:
        items: found in a text.
        text: that text.
        kind: "triples" or "events".
        score: the writer's confidence in the whole text.
    """
    describe = describe_triple if kind == "triples" else describe_event
    return [describe(item, text, round(score, 4)) for item in items]


def describe_triple(item: Item, text: str, score: float) -> dict:
    """Return a triple as relation extraction writes it."""
    subject, object_ = (span for _, span in item.nodes)
    return {
        "subject": list(subject),
        "predicate": item.name,
        "object": list(object_),
        "subject_text": text[slice(*subject)],
        "object_text": text[slice(*object_)],
        "score": score,
    }


def describe_event(item: Item, text: str, score: float) -> dict:
    """Return an event as event extraction writes it."""
    trigger: dict = {"trigger": None}
    arguments = []
    for role, span in item.nodes:
        words = text[slice(*span)]
        if role is None:
            trigger = {"trigger": list(span), "trigger_text": words, "trigger_score": score}
        else:
            arguments.append({"role": role, "span": list(span), "text": words, "score": score})
    return {"type": item.name, **trigger, "arguments": arguments}


def read_prediction(place: str, record: dict, kind: str) -> list[Item]:
    """Return the items of a record of a predictions file.

    Raises:
        InputError: the record is not a prediction; the message names its place.
    """
    items: list[Item] = []
    try:
        for item in record[kind]:
            if kind == "triples":
                spans = [(role, tuple(item[role])) for role in ("subject", "object")]
                items.append(Item(item["predicate"], tuple(spans)))
                continue
            parts = [(None, item["trigger"])] if item["trigger"] else []
            parts += [(part["role"], part["span"]) for part in item["arguments"]]
            items.append(make_event(item["type"], [(role, tuple(span)) for role, span in parts]))
    except (KeyError, TypeError) as error:
        raise InputError(f"{place}: not a prediction: write the file with evaluate.py.") from error
    return items
