"""Read and check examples; lay out their events as labels of the pointers or as tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from common.errors import InputError
from common.generator import Batch, Generator, pad
from common.records import Span, check_span, read_field, read_id, read_records, read_span
from common.tokens import Window, split_into_windows
from task.settings import Settings

# A span with its role in an event; the role of a trigger is None.
Node = tuple[str | None, Span]
# A role of one event type: what a head of the span pointer, or a pair of tags, stands for.
Label = tuple[str, str | None]


@dataclass(frozen=True)
class Event:
    """What happened: the trigger is the span that says so; arguments `(role, span)` are sorted."""

    type: str
    trigger: Span | None
    arguments: tuple[tuple[str, Span], ...]

    def nodes(self) -> list[Node]:
        """Return trigger and arguments, each with its role."""
        return [*([(None, self.trigger)] if self.trigger else []), *self.arguments]


@dataclass(frozen=True)
class Example:
    """One record of a file."""

    id: str
    text: str
    events: tuple[Event, ...]
    line: int


@dataclass(frozen=True)
class Schema:
    """The event types of the training file.

    `labels` are the roles of all types, the trigger's first; `triggered` are the types whose events
    all have a trigger.
    """

    types: tuple[str, ...]
    labels: tuple[Label, ...]
    triggered: frozenset[str]


def read_examples(path: str | Path, require_events: bool = True) -> list[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "events": [{"type", "trigger", "arguments"}]}`.
        require_events: False for files to predict, whose events nobody knows.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, lambda record, line: read_example(record, line, require_events))


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
    kind = read_field(item, "type", str)
    trigger = item.get("trigger")
    if trigger is not None:
        trigger = check_span(trigger, "trigger", text)
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
    events = [event for example in examples for event in example.events]
    if not events:
        raise InputError("no training example has an event: there is nothing to learn.")
    labels = {(event.type, role) for event in events for role, _ in event.nodes()}
    types = {event.type for event in events}
    untriggered = {event.type for event in events if event.trigger is None}
    return Schema(
        types=tuple(sorted(types)),
        labels=tuple(sorted(labels, key=lambda label: (label[0], label[1] is not None, label[1]))),
        triggered=frozenset(types - untriggered),
    )


def schema_to_dict(schema: Schema) -> dict:
    """Return a schema as labels.json holds it: the roles of each type, null for the trigger."""
    return {
        "types": {
            kind: {
                "roles": [role for own, role in schema.labels if own == kind],
                "always_triggered": kind in schema.triggered,
            }
            for kind in schema.types
        }
    }


def schema_from_dict(value: dict) -> Schema:
    """Return the schema that labels.json holds."""
    types = value["types"]
    return Schema(
        types=tuple(types),
        labels=tuple((kind, role) for kind, row in types.items() for role in row["roles"]),
        triggered=frozenset(kind for kind, row in types.items() if row["always_triggered"]),
    )


class EventGenerator(Generator):
    """Batches of windows, with the labels of the model unless they are to be predicted.

    Every window is one example of the training. A span is taught in the windows that hold it, a
    link in those that hold both its ends.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        schema: from `collect_schema`; other types and roles are left out.
        encoder_inputs: names of the inputs of the encoder.
        model: `gplinker` or `crf`.
        max_length: tokens of a window.
        window_overlap: tokens that neighbouring windows share.
        labels: False for prediction.
        progress: title of the progress bar; empty: none.
        **kwargs: as in `Generator`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        schema: Schema,
        encoder_inputs: Sequence[str],
        model: str,
        max_length: int,
        window_overlap: int,
        labels: bool = True,
        progress: str = "",
        **kwargs,
    ):
        self.examples = list(examples)
        self.schema = schema
        self.encoder_inputs = list(encoder_inputs)
        self.model = model
        texts = [example.text for example in examples]
        windows = split_into_windows(tokenizer, texts, max_length, window_overlap, progress)
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([len(window) for window in self.windows], **kwargs)
        lay_out = {"gplinker": pointer_labels, "crf": tag_labels}[model]
        self.labels = [
            lay_out(self.examples[example].events, window, schema)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        # One width for all batches: a static shape. 1 at least, so that no axis is empty.
        self.pairs = {
            name: max(1, *(label[name].shape[1] for label in self.labels))
            for name in (self.labels[0] if labels and model == "gplinker" else {})
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
            heads = self.labels[0][name].shape[0]
            batch[name] = np.full((len(examples), heads, pairs, 2), -1, np.int32)
            for row, index in zip(batch[name], examples, strict=True):
                label = self.labels[index][name]
                row[:, : label.shape[1]] = label
        if self.labels and self.model == "crf":
            batch["tags"] = pad([self.labels[index]["tags"] for index in examples], length)
        return batch


def make_generator(
    examples: Sequence[Example],
    settings: Settings,
    tokenizer: Tokenizer,
    schema: Schema,
    encoder_inputs: Sequence[str],
    **kwargs,
) -> EventGenerator:
    """Return batches of examples, laid out as the settings say.

    Args:
        examples: from `read_examples`.
        settings: `model`, `max_length`, `window_overlap`, `buckets`.
        tokenizer: of the encoder.
        schema: from `collect_schema`.
        encoder_inputs: names of the inputs of the encoder.
        **kwargs: as in `EventGenerator`.
    """
    return EventGenerator(
        examples,
        tokenizer,
        schema,
        encoder_inputs,
        settings.model,
        settings.max_length,
        settings.window_overlap,
        buckets=settings.buckets,
        progress="encode",
        **kwargs,
    )


def pointer_labels(
    events: Sequence[Event], window: Window, schema: Schema
) -> dict[str, np.ndarray]:
    """Return the true pairs of each pointer in one window.

    Returns:
        `span_labels`, `head_labels` and `tail_labels` `[heads, pairs, 2]`, filled with -1.
    """
    label_number = {label: index for index, label in enumerate(schema.labels)}
    type_number = {kind: index for index, kind in enumerate(schema.types)}
    spans, heads, tails = {}, {}, {}
    for event in events:
        taught = []
        for role, characters in event.nodes():
            span, label = window.token_span(characters), label_number.get((event.type, role))
            if span is not None and label is not None:
                spans.setdefault(label, {})[span] = None
                taught.append(span)
        kind = type_number.get(event.type)
        for one, two in combinations(taught, 2):
            head, tail = link_cells(one, two)
            heads.setdefault(kind, {})[head] = None
            tails.setdefault(kind, {})[tail] = None
    return {
        "span_labels": fill(spans, len(schema.labels)),
        "head_labels": fill(heads, len(schema.types)),
        "tail_labels": fill(tails, len(schema.types)),
    }


def link_cells(one: Span, two: Span) -> tuple[Span, Span]:
    """Return the cells that link two spans: their first tokens (head), their last ones (tail).

    A link has no direction, so it is stored once, with the span that begins first, or is shorter,
    in front: the head pointer needs the upper half of its grid only. The tail pointer needs both:
    were its cell sorted too, a span that encloses another could not be told from two that overlap.
    """
    (start, end), (other_start, other_end) = sorted((one, two))
    return (start, other_start), (end, other_end)


def fill(pairs_by_head: dict[int, dict], heads: int) -> np.ndarray:
    """Return `[heads, pairs, 2]` of dicts whose keys are the pairs of a head."""
    most = max((len(pairs) for pairs in pairs_by_head.values()), default=0)
    filled = np.full((heads, most, 2), -1, np.int32)
    for head, pairs in pairs_by_head.items():
        filled[head, : len(pairs)] = list(pairs)
    return filled


def tag_labels(events: Sequence[Event], window: Window, schema: Schema) -> dict[str, np.ndarray]:
    """Return the tag of each token of one window.

    Tag 0 is "outside"; 1 + 2 n begins label n and 2 + 2 n goes on with it. A token has one tag:
    where spans overlap, the first one is kept, the longer one of two that begin together.

    Returns:
        `tags` `[length]`.
    """
    number = {label: index for index, label in enumerate(schema.labels)}
    spans = set()
    for event in events:
        for role, characters in event.nodes():
            span, label = window.token_span(characters), number.get((event.type, role))
            if span is not None and label is not None:
                spans.add((span[0], -span[1], label))
    tags, free = np.zeros(len(window), np.int32), 0
    for first, minus_last, label in sorted(spans):
        if first >= free:
            free = 1 - minus_last
            tags[first:free] = 2 + 2 * label
            tags[first] = 1 + 2 * label
    return {"tags": tags}
