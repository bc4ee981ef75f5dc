"""PHEE: one sentence a line, events with a trigger and three main roles.

A role holds its spans as lists of parts, because a span may be discontinuous. Each part is an
argument of its own, as in the authors' scorer (preprocess/eval_ace_pred.py and
preprocess/produce_genqa_stage1_data.py of their repository), so that scores mean the same.
The sub-arguments and attributes inside of the main roles are left out.
"""

from collections.abc import Iterator
from pathlib import Path

from generator.data_sets.events import Event, event_records, make_event
from generator.data_sets.reading import (
    Span,
    check_span,
    fields_checked,
    parse_json,
    pool,
    read_lines,
)
from generator.errors import InputError

ROLES = ("Subject", "Treatment", "Effect")


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn PHEE files into the records of each split.

    Args:
        files: files in the official format; a sentence may be in any of them.
        splits: the pinned ids of each split.

    Returns:
        For each split its records, in the pinned order.

    Raises:
        InputError: a file is broken, or a pinned sentence is missing.
    """
    return pool(files, splits, read_records)


def read_records(path: Path, wanted: set[str]) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences of a file."""
    for line, text in read_lines(path):
        where = f"{path}, line {line}"
        sentence = parse_json(text, where)
        with fields_checked(where):
            if sentence["id"] not in wanted:
                continue
            events = {
                read_event(sentence["context"], event, where)
                for annotation in sentence["annotations"]
                for event in annotation["events"]
            }
            record = {
                "id": sentence["id"],
                "text": sentence["context"],
                "events": event_records(events),
            }
        yield where, record


def read_event(text: str, event: dict, where: str) -> Event:
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
