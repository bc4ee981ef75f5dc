"""The records of a file: texts with events; read and checked field by field."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import InputError
from core.data.records import (
    Id,
    Span,
    check_span,
    collect,
    read_field,
    read_records,
    read_span,
)

FIELDS = ("id", "text", "events", "type", "trigger", "arguments", "role", "span")
# A span with its role in an event; the role of a trigger is None.
Node = tuple[str | None, Span]


@dataclass(frozen=True)
class Event:
    """What happened; the trigger is the span that says so, and arguments are sorted."""

    type: str
    trigger: Span | None
    arguments: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """Return the trigger and the arguments, each with its role."""
        return [*([(None, self.trigger)] if self.trigger else []), *self.arguments]


@dataclass(frozen=True)
class Example:
    """One record of a file; `weight` is its weight in the loss.

    `levels` are its events by their probability, if not 1.
    """

    id: Id
    text: str
    events: tuple[Event, ...]
    line: int
    weight: float = 1.0
    levels: tuple = ()


@dataclass(frozen=True)
class Schema:
    """The event types of the training file, as labels.json holds them.

    Attributes:
        types: event type -> `roles` (None, the role of a trigger, first) and `always_triggered`.
    """

    types: dict[str, dict]

    @functools.cached_property
    def labels(self) -> list[tuple[str, str | None]]:
        """All types with their roles: each is a head of the span pointer, or a pair of tags."""
        return [(kind, role) for kind, row in self.types.items() for role in row["roles"]]

    @property
    def triggered(self) -> frozenset[str]:
        """The types whose events all have a trigger."""
        return frozenset(kind for kind, row in self.types.items() if row["always_triggered"])


def read_examples(path: str | Path, require_events: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "events": [{"type", "trigger", "arguments"}]}`.
        require_events: False for files to predict.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    read_one = functools.partial(read_example, require_events=require_events)
    return read_records(path, FIELDS, read_one)


def read_example(record: dict, line: int, require_events: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    events = []
    if require_events or record.get("events") is not None:  # null: unknown
        events = [read_event(item, text) for item in read_field(record, "events", list)]
    return Example(read_field(record, "id", Id), text, tuple(dict.fromkeys(events)), line)


def read_event(item: object, text: str) -> Event:
    """Check one event; an argument that is listed twice counts once."""
    if not isinstance(item, dict):
        raise InputError(
            f'the event {item!r} must be {{"type": "...", "trigger": [start, end] or null, '
            '"arguments": [...]}.'
        )
    kind, trigger = read_field(item, "type", str), read_field(item, "trigger", object)
    trigger = None if trigger is None else check_span(trigger, "trigger", text)
    arguments = set()
    for argument in read_field(item, "arguments", list):
        if not isinstance(argument, dict):
            raise InputError(
                f'the argument {argument!r} must be {{"role": "...", "span": [start, end]}}.'
            )
        arguments.add((read_field(argument, "role", str), read_span(argument, "span", text)))
    if trigger is None and not arguments:
        raise InputError(
            f"the event of type {kind!r} has neither a trigger nor an argument: mark one, or drop "
            "the event."
        )
    return Event(kind, trigger, tuple(sorted(arguments)))


def collect_schema(examples: Sequence[Example]) -> Schema:
    """Return the types and roles of the training examples, sorted.

    Raises:
        InputError: there is no event.
    """
    found = collect(find_roles, examples, joined=True)
    if not found:
        raise InputError("no training example has an event: there is nothing to learn.")
    types = {}
    for kind in sorted({kind for kind, *_ in found}):
        own = [(role, triggered) for other, role, triggered in found if other == kind]
        types[kind] = {
            "roles": sorted({role for role, _ in own}, key=lambda role: (role is not None, role)),
            "always_triggered": all(triggered for _, triggered in own),
        }
    return Schema(types)


def find_roles(examples: Sequence[Example]) -> set[tuple[str, str | None, bool]]:
    """Return `(type, role, whether the event has a trigger)` of every trigger and argument."""
    events = [event for example in examples for event in example.events]
    return {(one.type, role, bool(one.trigger)) for one in events for role, _ in one.nodes()}
