"""FewFC: one sentence a line, events as lists of mentions, of which one is the trigger."""

from collections.abc import Iterator
from pathlib import Path

from generator.data_sets.events import Argument, Event, event_records, make_event
from generator.data_sets.reading import (
    check_span,
    fields_checked,
    parse_json,
    pool,
    read_lines,
)
from generator.errors import InputError

TRIGGER = "trigger"


def convert(files: list[Path], splits: dict[str, list[str]]) -> dict[str, list[dict]]:
    """Turn FewFC files into the records of each split.

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
            events = {read_event(sentence["content"], event, where) for event in sentence["events"]}
            record = {
                "id": sentence["id"],
                "text": sentence["content"],
                "events": event_records(events),
            }
        yield where, record


def read_event(text: str, event: dict, where: str) -> Event:
    """Return an event after checking that every mention is the text at its span."""
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
