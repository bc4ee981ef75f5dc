"""The events of event extraction in one fixed order."""

from generator.data_sets.reading import Span

# An empty trigger stands for none. An argument is its span and its role.
Argument = tuple[int, int, str]
Event = tuple[Span | tuple[()], str, tuple[Argument, ...]]


def make_event(kind: str, trigger: Span | None, arguments: set[Argument]) -> Event:
    """Return an event in a form that can be compared and sorted."""
    return trigger or (), kind, tuple(sorted(arguments))


def event_records(events: set[Event]) -> list[dict]:
    """Return the events as JSON objects, sorted by trigger, type and arguments.

    An event that a source holds twice with the same trigger and arguments is one event.
    """
    return [
        {
            "type": kind,
            "trigger": list(trigger) or None,
            "arguments": [{"role": role, "span": [start, end]} for start, end, role in arguments],
        }
        for trigger, kind, arguments in sorted(events)
    ]
