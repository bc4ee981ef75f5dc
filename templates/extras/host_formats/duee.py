"""DuEE and DuEE-Fin: events with a trigger and arguments, with offsets or without.

A line is `{"id", "text", "event_list": [{"event_type", "trigger", "trigger_start_index",
"arguments": [{"role", "argument", "argument_start_index", "alias"}]}]}`.
"""

from typing import Any

from extras.host_formats.options import Options
from extras.host_formats.records import (
    Argument,
    Conversion,
    Event,
    Span,
    event_records,
    place_words,
    read_id,
    text_id,
)
from extras.host_formats.source_files import check_kind, field, objects


def read_duee(line: dict, where: str, options: Options, conversion: Conversion) -> dict:
    """Return the record of a line."""
    text = field(line, "text", str, where)
    name = read_id(line, "id", where) if "id" in line else text_id(text)
    record: dict[str, Any] = {"id": name, "text": text}
    if line.get("event_list") is None:
        return record
    listed = objects(line, "event_list", where)
    events = [read_event(text, event, where, conversion) for event in listed]
    whole = [event for event in events if event[0] or event[2]]
    empty = "events without a trigger and arguments, left out"
    conversion.remark(empty, where, len(events) - len(whole))
    record["events"] = event_records(conversion.distinct(whole, "events", where))
    return record


def read_event(text: str, event: dict, where: str, conversion: Conversion) -> Event:
    """Return an event; what is not in the text is left out."""
    kind, trigger = field(event, "event_type", str, where), None
    if event.get("trigger"):
        trigger = place(text, event, "trigger", "triggers", None, where, conversion)
    arguments: list[Argument] = []
    for part in objects(event, "arguments", where) if event.get("arguments") else []:
        role = field(part, "role", str, where)
        span = place(text, part, "argument", "arguments", trigger, where, conversion)
        if span:
            arguments.append((*span, role))
        aliases = field(part, "alias", list, where) if part.get("alias") else []
        conversion.remark("aliases of arguments, left out", where, len(aliases))
    once = conversion.distinct(arguments, "arguments", where)
    return trigger or (), kind, tuple(sorted(once))


def place(
    text: str,
    holder: dict,
    name: str,
    plural: str,
    near: Span | None,
    where: str,
    conversion: Conversion,
) -> Span | None:
    """Return the span of a trigger or an argument, from its offset if it has one."""
    start = holder.get(f"{name}_start_index")
    if start is not None:
        check_kind(start, int, f"the field '{name}_start_index'", where)
        conversion.remark(
            f"offsets of {plural} below 0: their words were searched", where, start < 0
        )
        start = None if start < 0 else start
    else:
        conversion.remark(f"{plural} without an offset: their words were searched", where)
    words = field(holder, name, str, where)
    return place_words(text, words, start, plural, where, conversion, near)


def write_duee(line: dict | None, record: dict, options: Options, conversion: Conversion) -> dict:
    """Return the predicted events of a line: the fields that the host scores, and the trigger."""
    text, where = record["text"], f"record {record['id']}"
    events = []
    for event in record["events"]:
        trigger = {"trigger": text[slice(*event["trigger"])]} if event["trigger"] else {}
        parts: list[dict] = []
        for part in event["arguments"]:
            spelled = {"role": part["role"], "argument": text[slice(*part["span"])]}
            if spelled not in parts:
                parts.append(spelled)
        what = "arguments with role and words of another one of their event, written once"
        conversion.remark(what, where, len(event["arguments"]) - len(parts))
        made = {"event_type": event["type"], **trigger, "arguments": parts}
        conversion.remark(
            "events with the words of another one, written once", where, made in events
        )
        events += [made] if made not in events else []
    given = record if line is None else line
    return {"id": given.get("id", record["id"]), "event_list": events}
