"""Data sets of event extraction: PHEE and FewFC, as events in one fixed order."""

from collections.abc import Container, Iterator
from pathlib import Path

from generator import InputError
from generator.data_sets.reading import (
    Span,
    check_span,
    fields_checked,
    parse_json,
    pool,
    read_lines,
)

ROLES = ("Subject", "Treatment", "Effect")
TRIGGER = "trigger"
# An empty trigger means no trigger. An argument is its span and its role.
Argument = tuple[int, int, str]
Event = tuple[Span | tuple[()], str, tuple[Argument, ...]]


def make_event(kind: str, trigger: Span | None, arguments: set[Argument]) -> Event:
    """Return an event in a comparable and sortable form."""
    return trigger or (), kind, tuple(sorted(arguments))


def event_records(events: set[Event]) -> list[dict]:
    """Return the events as JSON objects, sorted by trigger, type and arguments.

    An event that occurs twice with the same trigger and arguments is one event.
    """
    return [
        {
            "type": kind,
            "trigger": list(trigger) or None,
            "arguments": [{"role": role, "span": [start, end]} for start, end, role in arguments],
        }
        for trigger, kind, arguments in sorted(events)
    ]


# -------------------------------------------------------------------------------------------- PHEE

# One sentence per line, events with a trigger and three main roles.
#
# A role has its spans as lists of parts, because a span may be discontinuous. Each part is its own
# argument, as in the authors' scorer (preprocess/eval_ace_pred.py and
# preprocess/produce_genqa_stage1_data.py of their repository), so that scores mean the same.
# The sub-arguments and attributes inside the main roles are left out.


def convert_phee(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert PHEE files to the records of each split.

    Args:
        files: files in the official format; a sentence may be in any of them.
        splits: the pinned ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return pool(files, splits, read_phee)


def read_phee(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences of a file."""
    for line, text in read_lines(path):
        where = f"{path}, line {line}"
        sentence = parse_json(text, where)
        with fields_checked(where):
            if sentence["id"] not in wanted:
                continue
            events = {
                read_phee_event(sentence["context"], event, where)
                for annotation in sentence["annotations"]
                for event in annotation["events"]
            }
            record = {
                "id": sentence["id"],
                "text": sentence["context"],
                "events": event_records(events),
            }
        yield where, record


def read_phee_event(text: str, event: dict, where: str) -> Event:
    """Return an event with its trigger and its main arguments."""
    triggers = read_parts(text, event["Trigger"], "the trigger", where)
    if len(triggers) != 1:
        raise InputError(f"{where}: {len(triggers)} triggers in an event: fetch the file again.")
    arguments = {
        (*span, role)
        for role in ROLES
        if role in event
        for span in read_parts(text, event[role], f"a part of {role}", where)
    }
    return make_event(event["event_type"], triggers[0], arguments)


def read_parts(text: str, entity: dict, name: str, where: str) -> list[Span]:
    """Return the spans of every part of every mention."""
    return [
        check_span(text, start, start + len(words), words, name, where)
        for mention, starts in zip(entity["text"], entity["start"], strict=True)
        for words, start in zip(mention, starts, strict=True)
    ]


# ------------------------------------------------------------------------------------------- FewFC

# One sentence per line, events as lists of mentions; one mention is the trigger.


def convert_fewfc(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Convert FewFC files to the records of each split.

    Args:
        files: files in the official format; a sentence may be in any of them.
        splits: the pinned ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return pool(files, splits, read_fewfc)


def read_fewfc(path: Path, wanted: Container[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences of a file."""
    for line, text in read_lines(path):
        where = f"{path}, line {line}"
        sentence = parse_json(text, where)
        with fields_checked(where):
            if sentence["id"] not in wanted:
                continue
            events = {
                read_fewfc_event(sentence["content"], event, where) for event in sentence["events"]
            }
            record = {
                "id": sentence["id"],
                "text": sentence["content"],
                "events": event_records(events),
            }
        yield where, record


def read_fewfc_event(text: str, event: dict, where: str) -> Event:
    """Return an event after checking that every mention equals the text at its span."""
    mentions = {read_mention(text, mention, where) for mention in event["mentions"]}
    triggers = [(start, end) for start, end, role in mentions if role == TRIGGER]
    if len(triggers) > 1:
        raise InputError(f"{where}: an event has two triggers: fetch the file again.")
    arguments = {mention for mention in mentions if mention[2] != TRIGGER}
    return make_event(event["type"], triggers[0] if triggers else None, arguments)


def read_mention(text: str, mention: dict, where: str) -> Argument:
    """Return the span of a mention and its role."""
    role = mention["role"]
    start, end = mention["span"]
    return *check_span(text, start, end, mention["word"], f"a mention of {role}", where), role
