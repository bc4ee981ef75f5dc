"""Data sets of event extraction: PHEE and FewFC, as events in one fixed order."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from extras.host_formats.records import (
    Argument,
    Conversion,
    Event,
    Span,
    event_records,
    find_span,
    read_id,
)
from extras.host_formats.source_files import (
    SourceError,
    check_kind,
    field,
    objects,
    read_objects,
    shown,
)

ROLES = ("Subject", "Treatment", "Effect")
# Besides its main roles, an event of PHEE has these; all else are attributes such as its severity.
OF_EVENT = {"event_id", "event_type", "Trigger", *ROLES}
# Besides these, a main role has sub-arguments, such as the drug and the dosage of a treatment.
OF_ROLE = {"text", "start", "entity_id"}
TRIGGER = "trigger"


def read_events(
    files: list[Path],
    conversion: Conversion,
    text_field: str,
    find_events: Callable[[dict, str], list[dict] | None],
    read_event: Callable[[str, dict, str, Conversion], Event],
) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences of files with one JSON object a line.

    Args:
        files: the files; a sentence may be in any of them.
        conversion: what is wanted.
        text_field: the field that holds the text of a sentence.
        find_events: returns the events of a sentence; None: it is unlabelled.
        read_event: returns one of them, from the text, the event, its place and the conversion.
    """
    for where, sentence in read_objects(files):
        name = read_id(sentence, "id", where)
        if name not in conversion.wanted:
            continue
        text = field(sentence, text_field, str, where)
        record = {"id": name, "text": text}
        events = find_events(sentence, where)
        if events is not None:
            found = [read_event(text, event, where, conversion) for event in events]
            whole = [(trigger, kind, rest) for trigger, kind, rest in found if trigger or rest]
            empty = "events without a trigger and arguments, left out"
            conversion.remark(empty, where, len(found) - len(whole))
            record["events"] = event_records(conversion.distinct(whole, "events", where))
        yield where, record


def read_type(event: dict, name: str, where: str) -> str:
    """Return the type of an event.

    Raises:
        SourceError: it is missing or empty.
    """
    kind = field(event, name, str, where)
    if not kind:
        raise SourceError(f"{where}: an event has an empty {name!r}")
    return kind


# -------------------------------------------------------------------------------------------- PHEE

# One sentence per line, events with a trigger and three main roles.
#
# A role has its spans as lists of parts, because a span may be discontinuous. Each part is its own
# argument, as in the authors' scorer (preprocess/eval_ace_pred.py and
# preprocess/produce_genqa_stage1_data.py of their repository), so that scores mean the same.
# The sub-arguments and attributes inside the main roles are left out.


def read_phee(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences."""
    yield from read_events(files, conversion, "context", find_phee_events, read_phee_event)


def find_phee_events(sentence: dict, where: str) -> list[dict] | None:
    """Return the events of a sentence; None: it has no annotations."""
    if sentence.get("annotations") is None:
        return None
    annotations = objects(sentence, "annotations", where)
    return [event for each in annotations for event in objects(each, "events", where)]


def read_phee_event(text: str, event: dict, where: str, conversion: Conversion) -> Event:
    """Return an event with its trigger and its main arguments."""
    kind = read_type(event, "event_type", where)
    trigger = field(event, "Trigger", dict, where)
    triggers = read_parts(text, trigger, "the trigger", where, conversion)
    if len(triggers) != 1:
        raise SourceError(f"{where}: {len(triggers)} triggers in an event")
    arguments = []
    for role in ROLES:
        if role in event:
            entity = field(event, role, dict, where)
            parts = read_parts(text, entity, f"a part of {role}", where, conversion)
            arguments += [(*span, role) for span in parts]
            count = sum(map(count_mentions, (entity[name] for name in entity.keys() - OF_ROLE)))
            what = "sub-arguments, such as the drug of a treatment, left out"
            conversion.remark(what, where, count)
    attributes = "attributes of events, such as severity and negation, left out"
    conversion.remark(attributes, where, len(event.keys() - OF_EVENT))
    return triggers[0], kind, tuple(sorted(conversion.distinct(arguments, "arguments", where)))


def count_mentions(inner: Any) -> int:
    """Return how many mentions a sub-argument has; combinations of drugs are a list of events."""
    mentions = inner.get("text") if isinstance(inner, dict) else inner
    return len(mentions) if isinstance(mentions, list) else 1


def read_parts(
    text: str, entity: dict, name: str, where: str, conversion: Conversion
) -> list[Span]:
    """Return the spans of every part of every mention."""
    spans = []
    mentions, starts = (field(entity, key, list, where) for key in ("text", "start"))
    for mention, offsets in pair_up(mentions, starts, name, where):
        for words, start in pair_up(mention, offsets, name, where):
            check_kind(words, str, "a text", where)
            check_kind(start, int, "a start", where)
            spans.append(find_span(text, start, words, name, where, conversion))
    return spans


def pair_up(texts: list, starts: list, name: str, where: str) -> Iterator[tuple]:
    """Return pairs of a text and its start, or of a list of texts and one of starts.

    Raises:
        SourceError: there are more of one than of the other.
    """
    for each in (texts, starts):
        check_kind(each, list, f"{name}: a mention", where)
    if len(texts) != len(starts):
        raise SourceError(
            f"{where}: {name} has {len(texts)} texts and {len(starts)} starts: {shown(texts)}"
        )
    return zip(texts, starts, strict=True)


# ------------------------------------------------------------------------------------------- FewFC

# One sentence per line, events as lists of mentions; one mention is the trigger.


def read_fewfc(files: list[Path], conversion: Conversion) -> Iterator[tuple[str, dict]]:
    """Yield `(place, record)` for the wanted sentences."""
    yield from read_events(files, conversion, "content", find_fewfc_events, read_fewfc_event)


def find_fewfc_events(sentence: dict, where: str) -> list[dict] | None:
    """Return the events of a sentence; None: it is unlabelled."""
    return None if sentence.get("events") is None else objects(sentence, "events", where)


def read_fewfc_event(text: str, event: dict, where: str, conversion: Conversion) -> Event:
    """Return an event after checking that every mention is the text at its span."""
    kind = read_type(event, "type", where)
    listed = [
        read_mention(text, mention, where, conversion)
        for mention in objects(event, "mentions", where)
    ]
    mentions = conversion.distinct(listed, "arguments", where)
    triggers = [(start, end) for start, end, role in mentions if role == TRIGGER]
    if len(triggers) > 1:
        raise SourceError(f"{where}: an event has two triggers")
    arguments = sorted(mention for mention in mentions if mention[2] != TRIGGER)
    return triggers[0] if triggers else (), kind, tuple(arguments)


def read_mention(text: str, mention: dict, where: str, conversion: Conversion) -> Argument:
    """Return the span of a mention and its role."""
    role = field(mention, "role", str, where)
    span = field(mention, "span", list, where)
    if len(span) != 2:
        raise SourceError(f"{where}: a span is {shown(span)} instead of [start, end]")
    start, end = (check_kind(offset, int, "an offset", where) for offset in span)
    words = field(mention, "word", str, where)
    name = f"a mention of {role}"
    return *find_span(text, start, words, name, where, conversion, end), role
