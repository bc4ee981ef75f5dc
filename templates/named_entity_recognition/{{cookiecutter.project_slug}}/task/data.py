"""Read and check examples, in three formats; lay out their entities as labels of spans or tags."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.batches import Batch, DataGenerator, pad
from core.data.records import Id, Span, check_span, read_field, read_id, read_records, read_span
from core.data.tokens import Window, split_into_windows
from formats.conll import Chunk, file_scheme, is_conll, read_conll, read_sentences
from task.settings import Settings

FIELDS = ("id", "text", "entities", "type", "span", "label", "start_offset", "end_offset")
# What else doccano writes: it is left alone.
OF_DOCCANO = ("labels", "relations", "from_id", "to_id", "Comments", "comments", "meta")
PIECES = "an entity of several pieces is out of reach: give the span of each piece, or of them all."


@dataclass(frozen=True, order=True)
class Entity:
    """Characters `[start, end)` that name something of a type."""

    span: Span
    type: str


@dataclass(frozen=True)
class Example:
    """One record of a file, or one sentence of a CoNLL file.

    Attributes:
        tokens: the characters of the tokens of a CoNLL file, whose entities begin and end with one.
        line: where it begins.
    """

    id: Id
    text: str
    entities: tuple[Entity, ...]
    tokens: tuple[Span, ...] | None
    line: int


@dataclass(frozen=True)
class Schema:
    """What labels.json holds of the training file.

    Attributes:
        types: of entities; each is a head of the pointer, or a pair of tags.
        flat: no two entities overlap, so none are predicted that do.
        scheme: of the tags, for CoNLL files that have none.
    """

    types: list[str]
    flat: bool
    scheme: str = "bio2"


def read_examples(
    path: str | Path, settings: Settings, require_entities: bool = True
) -> Sequence[Example]:
    """Read a file and check every field.

    Args:
        path: records `{"id", "text", "entities": [{"type", "span"}]}`, an export of doccano, or
            columns: see `is_conll`.
        settings: say what the columns are.
        require_entities: False for files to predict, whose entities nobody knows.

    Raises:
        InputError: names file, line and what is wrong there.
    """
    if is_conll(path):
        return read_sentences(path, settings.conll, require_entities, conll_example)
    fields = (*FIELDS, *OF_DOCCANO)
    return read_records(path, fields, functools.partial(read_example, required=require_entities))


def conll_example(line: int, text: str, tokens: list[Span], chunks: list[Chunk]) -> Example:
    """Return a sentence of a file of columns; its id is the line that it begins on."""
    entities = tuple(Entity((tokens[i][0], tokens[j][1]), kind) for kind, i, j in chunks)
    return Example(line, text, entities, tuple(tokens), line)


def read_example(record: dict, line: int, required: bool) -> Example:
    """Check one record, ours or doccano's."""
    text = read_field(record, "text", str)
    name = "labels" if "labels" in record and "label" not in record else "label"
    found: set[Entity] = set()
    if "entities" not in record and name in record:
        found = {read_doccano_label(item, text) for item in read_field(record, name, list)}
    elif required or "entities" in record:
        found = {read_entity(item, text) for item in read_field(record, "entities", list)}
    return Example(read_id(record), text, tuple(sorted(found)), None, line)


def read_entity(item: object, text: str) -> Entity:
    """Check one entity; doccano names its ends `start_offset` and `end_offset`."""
    if not isinstance(item, dict):
        raise InputError(
            f'the entity {item!r} must be {{"type": "...", "span": [start, end]}}, or as doccano '
            "exports it."
        )
    if "start_offset" in item:
        ends = [item["start_offset"], read_field(item, "end_offset", object)]
        return Entity(check_span(ends, "start_offset", text), read_field(item, "label", str))
    span = item.get("span")
    if isinstance(span, list) and any(isinstance(part, list) for part in span):
        raise InputError(f'"span" is {span!r}: {PIECES}')
    return Entity(read_span(item, "span", text), read_field(item, "type", str))


def read_doccano_label(item: object, text: str) -> Entity:
    """Check one label `[start, end, type]` of doccano."""
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[2], str):
        raise InputError(f'the label {item!r} must be [start, end, "type"].')
    return Entity(check_span(item[:2], "label", text), item[2])


def collect_schema(examples: Sequence[Example], path: Path, settings: Settings) -> Schema:
    """Return the types of the training examples, sorted, and how they stand.

    Raises:
        InputError: there is no entity.
    """
    types = sorted({entity.type for example in examples for entity in example.entities})
    if not types:
        raise InputError("no training example has an entity: there is nothing to learn.")
    scheme = None
    if is_conll(path):
        scheme = file_scheme(read_conll(path, settings.conll, True), settings.conll)
    return Schema(types, not any(overlap(e.entities) for e in examples), scheme or "bio2")


def overlap(entities: Iterable[Entity]) -> bool:
    """Tell whether two of some entities share a character."""
    end = 0
    for start, stop in sorted(entity.span for entity in entities):
        if start < end:
            return True
        end = max(end, stop)
    return False


class EntityGenerator(DataGenerator):
    """Batches of windows, with the labels of the model unless they are to be predicted.

    Every window is one example of the training. An entity is taught in the windows that hold it.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder; `encoder_inputs` are the names of its inputs.
        types: of entities; others are left out.
        settings: `tagger`, `max_length`, `window_overlap`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "labels")

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        types: Sequence[str],
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        labels: bool = True,
    ) -> None:
        self.examples, self.types = list(examples), list(types)
        self.encoder_inputs, self.tagger = list(encoder_inputs), settings.tagger
        texts = [example.text for example in examples]
        length, overlap = settings.max_length, settings.window_overlap
        windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([*map(len, self.windows)], batch_size, settings.buckets, settings.seed)
        lay_out = tag_labels if self.tagger == "crf" else span_labels
        self.labels: list = [
            lay_out(self.examples[example].entities, window, self.types)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        self.measure()

    def measure(self) -> None:
        """Give the labels of all batches one width: a static shape, of which no axis is empty."""
        cells = self.labels if self.tagger == "pointer" else []
        self.pairs = max([1, *(len(spans) for label in cells for spans in label.values())])

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        token_ids = [self.windows[index].token_ids for index in examples]
        arrays = {
            "token_ids": pad(token_ids, length),
            "segment_ids": np.zeros((len(examples), length), np.int32),
            "padding_mask": pad([np.ones(len(ids), np.int32) for ids in token_ids], length),
        }
        batch = {name: arrays[name] for name in self.encoder_inputs}
        if self.labels and self.tagger == "crf":
            batch["tags"] = pad([self.labels[index] for index in examples], length)
        elif self.labels:
            shape = len(examples), len(self.types), self.pairs, 2
            batch["span_labels"] = np.full(shape, -1, np.int32)
            for row, index in zip(batch["span_labels"], examples, strict=True):
                for head, spans in self.labels[index].items():
                    row[head, : len(spans)] = list(spans)
        return batch


def taught_spans(
    entities: Iterable[Entity], window: Window, types: Sequence[str]
) -> list[tuple[int, Span]]:
    """Return type and tokens of the entities that a window holds."""
    found = [(entity.type, window.token_span(entity.span)) for entity in entities]
    return [(types.index(kind), span) for kind, span in found if span and kind in types]


def span_labels(
    entities: Iterable[Entity], window: Window, types: Sequence[str]
) -> dict[int, dict[Span, None]]:
    """Return the true spans of tokens in one window, by type, each once."""
    spans: dict[int, dict[Span, None]] = defaultdict(dict)
    for kind, span in taught_spans(entities, window, types):
        spans[kind][span] = None
    return spans


def tag_labels(entities: Iterable[Entity], window: Window, types: Sequence[str]) -> np.ndarray:
    """Return the tag of each token of one window `[length]`, numbered as in core/layers/crf.py.

    Of entities that overlap the first one is kept, and of those that begin together the longest.
    """
    taught = {(span[0], -span[1], kind) for kind, span in taught_spans(entities, window, types)}
    tags, free = np.zeros(len(window), np.int32), 0
    for first, minus_last, kind in sorted(taught):
        if first >= free:
            free = 1 - minus_last
            tags[first:free] = 2 + 2 * kind
            tags[first] = 1 + 2 * kind
    return tags
