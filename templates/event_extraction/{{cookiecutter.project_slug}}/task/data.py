"""Read and check examples; lay out their events as labels of the pointers or as tags."""

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import ask
from core.batches import Batch, DataGenerator, pad
from core.data.records import Id, Span, check_span, read_field, read_id, read_records, read_span
from core.data.tokens import Window, split_into_windows
from task.settings import Settings

FIELDS = ("id", "text", "events", "type", "trigger", "arguments", "role", "span")
# A span with its role in an event; the role of a trigger is None.
Node = tuple[str | None, Span]


@dataclass(frozen=True)
class Event:
    """What happened: the trigger is the span that says so; arguments `(role, span)` are sorted."""

    type: str
    trigger: Span | None
    arguments: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """Return trigger and arguments, each with its role."""
        return [*([(None, self.trigger)] if self.trigger else []), *self.arguments]


@dataclass(frozen=True)
class Example:
    """One record of a file."""

    id: Id
    text: str
    events: tuple[Event, ...]
    line: int


@dataclass(frozen=True)
class Schema:
    """The event types of the training file, as labels.json holds them.

    Attributes:
        types: event type -> `roles` (None, that of a trigger, comes first), `always_triggered`.
    """

    types: dict[str, dict]

    @functools.cached_property
    def labels(self) -> list[tuple[str, str | None]]:
        """The roles of all types: each is a head of the span pointer, or a pair of tags."""
        return [(kind, role) for kind, row in self.types.items() for role in row["roles"]]

    @property
    def triggered(self) -> frozenset[str]:
        """The types whose events all have a trigger."""
        return frozenset(kind for kind, row in self.types.items() if row["always_triggered"])


def read_examples(path: str | Path, require_events: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "events": [{"type", "trigger", "arguments"}]}`.
        require_events: False for files to predict, whose events nobody knows.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    read_one = functools.partial(read_example, require_events=require_events)
    return read_records(path, FIELDS, read_one)


def read_example(record: dict, line: int, require_events: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    events = []
    if require_events or "events" in record:
        events = [read_event(item, text) for item in read_field(record, "events", list)]
    return Example(read_id(record), text, tuple(dict.fromkeys(events)), line)


def read_event(item: object, text: str) -> Event:
    """Check one event; an argument that is listed twice counts once."""
    if not isinstance(item, dict):
        raise InputError(
            f'the event {item!r} must be {{"type": "...", "trigger": [start, end] or null, '
            '"arguments": [...]}.'
        )
    kind, trigger = read_field(item, "type", str), item.get("trigger")
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
            f"the event of type {kind!r} has neither a trigger nor an argument: no words of the "
            "text stand for it, so drop it."
        )
    return Event(kind, trigger, tuple(sorted(arguments)))


def collect_schema(examples: Sequence[Example]) -> Schema:
    """Return the types and roles of the training examples, sorted.

    Raises:
        InputError: there is no event.
    """
    found = ask("recall_joined", find_roles, examples) or find_roles(examples)
    if not found:
        raise InputError("no training example has an event: there is nothing to learn.")
    types = {}
    for kind in sorted({kind for kind, *_ in found}):
        roles, triggered = zip(*(rest for other, *rest in found if other == kind), strict=True)
        types[kind] = {
            "roles": sorted({*roles}, key=lambda role: (role is not None, role)),
            "always_triggered": all(triggered),
        }
    return Schema(types)


def find_roles(examples: Sequence[Example]) -> set[tuple[str, str | None, bool]]:
    """Return the types of events, each with its roles and whether the event has a trigger."""
    events = [event for example in examples for event in example.events]
    events = [event for example in examples for event in example.events]
    return {(one.type, role, bool(one.trigger)) for one in events for role, _ in one.nodes()}


class EventGenerator(DataGenerator):
    """Batches of windows, with the labels of the model unless they are to be predicted.

    Every window is one example of the training. A span is taught in the windows that hold it, a
    link in those that hold both its ends.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder; `encoder_inputs` are the names of its inputs.
        schema: from `collect_schema`; other types and roles are left out.
        settings: `model`, `max_length`, `window_overlap`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "labels")

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        schema: Schema,
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        labels: bool = True,
    ) -> None:
        self.examples, self.schema = list(examples), schema
        self.encoder_inputs, self.model = list(encoder_inputs), settings.model
        texts = [example.text for example in examples]
        length, overlap = settings.max_length, settings.window_overlap
        windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([*map(len, self.windows)], batch_size, settings.buckets, settings.seed)
        lay_out = tag_labels if self.model == "crf" else pointer_labels
        self.labels: list = [
            lay_out(self.examples[example].events, window, schema)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        self.measure()

    def measure(self) -> None:
        """Give the labels of all batches one width: a static shape, of which no axis is empty."""
        self.pairs = {
            name: max([1, *(len(cells) for label in self.labels for cells in label[name].values())])
            for name in (self.labels[0] if self.labels and self.model == "gplinker" else {})
        }

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        token_ids = [self.windows[index].token_ids for index in examples]
        arrays = {
            "token_ids": pad(token_ids, length),
            "segment_ids": np.zeros((len(examples), length), np.int32),
            "padding_mask": pad([np.ones(len(ids), np.int32) for ids in token_ids], length),
        }
        batch = {name: arrays[name] for name in self.encoder_inputs}
        for name, pairs in self.pairs.items():
            heads = len(self.schema.labels if name == "span" else self.schema.types)
            batch[f"{name}_labels"] = np.full((len(examples), heads, pairs, 2), -1, np.int32)
            for row, index in zip(batch[f"{name}_labels"], examples, strict=True):
                for head, cells in self.labels[index][name].items():
                    row[head, : len(cells)] = list(cells)
        if self.labels and self.model == "crf":
            batch["tags"] = pad([self.labels[index] for index in examples], length)
        return batch


def taught_spans(event: Event, window: Window, schema: Schema) -> list[tuple[int, Span]]:
    """Return label and tokens of the trigger and the arguments that a window holds."""
    found = [((event.type, role), window.token_span(span)) for role, span in event.nodes()]
    return [
        (schema.labels.index(label), span)
        for label, span in found
        if span and label in schema.labels
    ]


def pointer_labels(
    events: Sequence[Event], window: Window, schema: Schema
) -> dict[str, dict[int, dict[Span, None]]]:
    """Return the true pairs in one window: pointer -> head -> pairs of tokens, each once."""
    types = list(schema.types)
    pairs: dict = {name: defaultdict(dict) for name in ("span", "head", "tail")}
    for event in events:
        taught = taught_spans(event, window, schema)
        for label, span in taught:
            pairs["span"][label][span] = None
        for (_, one), (_, two) in combinations(taught, 2):
            kind = types.index(event.type)
            head, tail = link_cells(one, two)
            pairs["head"][kind][head] = pairs["tail"][kind][tail] = None
    return pairs


def link_cells(one: Span, two: Span) -> tuple[Span, Span]:
    """Return the cells that link two spans: their first tokens (head), their last ones (tail).

    A link has no direction, so it is stored once, with the span that begins first, or is shorter,
    in front: the head pointer needs the upper half of its grid only. The tail pointer needs both:
    were its cell sorted too, a span that encloses another could not be told from two that overlap.
    """
    (start, end), (other_start, other_end) = sorted((one, two))
    return (start, other_start), (end, other_end)


def tag_labels(events: Sequence[Event], window: Window, schema: Schema) -> np.ndarray:
    """Return the tag of each token of one window `[length]`, numbered as in core/layers/crf.py.

    Of spans that overlap the first one is kept, and of those that begin together the longest.
    """
    spans = {
        (span[0], -span[1], label)
        for event in events
        for label, span in taught_spans(event, window, schema)
    }
    tags, free = np.zeros(len(window), np.int32), 0
    for first, minus_last, label in sorted(spans):
        if first >= free:
            free = 1 - minus_last
            tags[first:free] = 2 + 2 * label
            tags[first] = 1 + 2 * label
    return tags
