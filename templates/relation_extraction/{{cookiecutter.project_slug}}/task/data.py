"""Read and check examples; lay out their triples as labels of the pointers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import ask
from core.data.data_generator import Batch, DataGenerator, pad
from core.data.records import Id, Span, read_field, read_id, read_records, read_span
from core.data.tokens import Window, split_into_windows
from task.settings import Settings

FIELDS = ("id", "text", "triples", "annotated_predicates", "subject", "predicate", "object")


@dataclass(frozen=True, order=True)
class Triple:
    """Two character spans `[start, end)` and the predicate that relates them."""

    subject: Span
    predicate: str
    object: Span


@dataclass(frozen=True)
class Example:
    """One record of a file.

    `annotated_predicates` is None where the record speaks of all predicates.
    """

    id: Id
    text: str
    triples: tuple[Triple, ...]
    annotated_predicates: frozenset[str] | None
    line: int


def read_examples(path: str | Path, require_triples: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "triples", "annotated_predicates" (optional)}`.
        require_triples: False for files to predict, whose triples nobody knows.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, FIELDS, partial(read_example, require_triples=require_triples))


def read_example(record: dict, line: int, require_triples: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    annotated = record.get("annotated_predicates")
    if annotated is not None and not (
        isinstance(annotated, list) and all(isinstance(name, str) for name in annotated)
    ):
        raise InputError('"annotated_predicates" must be a list of strings, or absent.')
    wanted = require_triples or "triples" in record
    items = read_field(record, "triples", list) if wanted else []
    triples = tuple(dict.fromkeys(read_triple(item, text) for item in items))
    for triple in triples:
        if annotated is not None and triple.predicate not in annotated:
            raise InputError(
                f"the triple with predicate {triple.predicate!r} is not among "
                '"annotated_predicates": add the predicate there, or drop the triple.'
            )
    annotated = None if annotated is None else frozenset(annotated)
    return Example(read_id(record), text, triples, annotated, line)


def read_triple(item: object, text: str) -> Triple:
    """Check one triple."""
    if not isinstance(item, dict):
        raise InputError(
            f'the triple {item!r} must be {{"subject": [start, end], "predicate": "...", '
            '"object": [start, end]}.'
        )
    subject, predicate = read_span(item, "subject", text), read_field(item, "predicate", str)
    return Triple(subject, predicate, read_span(item, "object", text))


def collect_predicates(examples: Sequence[Example]) -> list[str]:
    """Return every predicate of the training examples, sorted."""
    predicates = ask("recall_joined", find_predicates, examples) or find_predicates(examples)
    if not predicates:
        raise InputError("no training example has a triple: there is nothing to learn.")
    return sorted(predicates)


def find_predicates(examples: Sequence[Example]) -> set[str]:
    """Return the predicates that examples name."""
    predicates = set()
    for example in examples:
        predicates |= {triple.predicate for triple in example.triples}
        predicates |= example.annotated_predicates or set()
    return predicates


class TripleGenerator(DataGenerator):
    """Batches of windows, with the labels of the pointers unless they are to be predicted.

    A window is one example of DataGenerator; `self.examples` are records. A triple is taught in the
    windows that hold both its spans.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder; `encoder_inputs` are the names of its inputs.
        predicates: from `collect_predicates`; others are left out.
        settings: `entity_heads`, `max_length`, `window_overlap`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "labels")

    def __init__(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        predicates: Sequence[str],
        encoder_inputs: Sequence[str],
        settings: Settings,
        batch_size: int,
        labels: bool = True,
    ) -> None:
        self.examples, self.predicates = list(examples), list(predicates)
        self.encoder_inputs, self.entity_heads = list(encoder_inputs), settings.entity_heads
        texts = [example.text for example in examples]
        length, overlap = settings.max_length, settings.window_overlap
        windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([*map(len, self.windows)], batch_size, settings.buckets, settings.seed)
        self.labels = [
            pointer_labels(self.examples[example], window, self.predicates, self.entity_heads)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        self.measure()

    def measure(self) -> None:
        """Give the labels of all batches one width: a static shape, of which no axis is empty."""
        self.pairs = {
            name: max(1, *(label[name].shape[1] for label in self.labels))
            for name in (self.labels[0] if self.labels else {})
            if name.endswith("_labels")
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
            labels = [self.labels[index][name].swapaxes(0, 1) for index in examples]
            batch[name] = pad(labels, pairs, -1).swapaxes(1, 2)
        if self.labels:
            batch["annotated"] = np.stack([self.labels[index]["annotated"] for index in examples])
        return batch


def pointer_labels(
    example: Example, window: Window, predicates: list[str], entity_heads: str
) -> dict[str, np.ndarray]:
    """Return the true pairs of each pointer in one window.

    Returns:
        `entity_labels`, `head_labels` and `tail_labels` `[heads, pairs, 2]`, filled with -1, and
        `annotated` `[predicates]`: 1 where the record speaks of the predicate.
    """
    number = {predicate: index for index, predicate in enumerate(predicates)}
    entity, head, tail = (defaultdict[int, dict](dict) for _ in range(3))
    for triple in example.triples:
        subject, object_ = window.token_span(triple.subject), window.token_span(triple.object)
        predicate = number.get(triple.predicate)
        if subject is None or object_ is None or predicate is None:
            continue
        first = 0 if entity_heads == "shared" else 2 * predicate
        entity[first][subject] = entity[first + 1][object_] = None
        head[predicate][subject[0], object_[0]] = tail[predicate][subject[1], object_[1]] = None
    own = example.annotated_predicates
    return {
        "entity_labels": fill(entity, entity_head_count(len(predicates), entity_heads)),
        "head_labels": fill(head, len(predicates)),
        "tail_labels": fill(tail, len(predicates)),
        "annotated": np.array([own is None or name in own for name in predicates], np.float32),
    }


def entity_head_count(predicates: int, entity_heads: str) -> int:
    """Return the heads of the entity pointer: subject and object, once or for each predicate."""
    return 2 if entity_heads == "shared" else 2 * predicates


def fill(pairs_by_head: dict[int, dict], heads: int) -> np.ndarray:
    """Return `[heads, pairs, 2]` of dicts whose keys are the pairs of a head."""
    most = max((len(pairs) for pairs in pairs_by_head.values()), default=0)
    filled = np.full((heads, most, 2), -1, np.int32)
    for head, pairs in pairs_by_head.items():
        filled[head, : len(pairs)] = list(pairs)
    return filled
