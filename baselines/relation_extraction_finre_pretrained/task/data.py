"""Read and check examples; lay out their triples as labels of the pointers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from common.errors import InputError
from common.generator import Batch, Generator, pad
from common.records import Span, read_field, read_id, read_records, read_span
from common.tokens import Window, split_into_windows
from task.settings import Settings


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

    id: str
    text: str
    triples: tuple[Triple, ...]
    annotated_predicates: frozenset[str] | None
    line: int


def read_examples(path: str | Path, require_triples: bool = True) -> list[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "triples", "annotated_predicates" (optional)}`.
        require_triples: False for files to predict, whose triples nobody knows.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, lambda record, line: read_example(record, line, require_triples))


def read_example(record: dict, line: int, require_triples: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    annotated = record.get("annotated_predicates")
    if annotated is not None and not (
        isinstance(annotated, list) and all(isinstance(name, str) for name in annotated)
    ):
        raise InputError('"annotated_predicates" must be a list of strings, or absent.')
    triples = []
    if require_triples or "triples" in record:
        for item in read_field(record, "triples", list):
            if not isinstance(item, dict):
                raise InputError(
                    f'the triple {item!r} must be {{"subject": [start, end], "predicate": "...", '
                    '"object": [start, end]}.'
                )
            triple = Triple(
                read_span(item, "subject", text),
                read_field(item, "predicate", str),
                read_span(item, "object", text),
            )
            if annotated is not None and triple.predicate not in annotated:
                raise InputError(
                    f"the triple with predicate {triple.predicate!r} is not among "
                    '"annotated_predicates": add the predicate there, or drop the triple.'
                )
            triples.append(triple)
    return Example(
        id=read_id(record),
        text=text,
        triples=tuple(dict.fromkeys(triples)),
        annotated_predicates=None if annotated is None else frozenset(annotated),
        line=line,
    )


def collect_predicates(examples: Sequence[Example]) -> list[str]:
    """Return every predicate of the training examples, sorted."""
    predicates = {triple.predicate for example in examples for triple in example.triples}
    predicates.update(*(example.annotated_predicates or () for example in examples))
    if not predicates:
        raise InputError("no training example has a triple: there is nothing to learn.")
    return sorted(predicates)


def triple_to_dict(triple: Triple) -> dict:
    """Return a triple as the files hold it."""
    return {
        "subject": list(triple.subject),
        "predicate": triple.predicate,
        "object": list(triple.object),
    }


class TripleGenerator(Generator):
    """Batches of windows, with the labels of the pointers unless they are to be predicted.

    Every window is one example of the training. A triple is taught in the windows that hold both
    its spans.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        predicates: from `collect_predicates`; others are left out.
        encoder_inputs: names of the inputs of the encoder.
        entity_heads: `shared` or `per_predicate`.
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
        predicates: Sequence[str],
        encoder_inputs: Sequence[str],
        entity_heads: str,
        max_length: int,
        window_overlap: int,
        labels: bool = True,
        progress: str = "",
        **kwargs,
    ):
        self.examples = list(examples)
        self.predicates = list(predicates)
        self.encoder_inputs = list(encoder_inputs)
        self.entity_heads = entity_heads
        texts = [example.text for example in examples]
        windows = split_into_windows(tokenizer, texts, max_length, window_overlap, progress)
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([len(window) for window in self.windows], **kwargs)
        self.labels = [
            pointer_labels(self.examples[example], window, self.predicates, entity_heads)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        # One width for all batches: a static shape. 1 at least, so that no axis is empty.
        self.pairs = {
            name: max(1, *(label[name].shape[1] for label in self.labels))
            for name in (self.labels[0] if labels else {})
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
            heads = self.labels[0][name].shape[0]
            batch[name] = np.full((len(examples), heads, pairs, 2), -1, np.int32)
            for row, index in zip(batch[name], examples, strict=True):
                label = self.labels[index][name]
                row[:, : label.shape[1]] = label
        if self.labels:
            batch["annotated"] = np.stack([self.labels[index]["annotated"] for index in examples])
        return batch


def make_generator(
    examples: Sequence[Example],
    settings: Settings,
    tokenizer: Tokenizer,
    predicates: Sequence[str],
    encoder_inputs: Sequence[str],
    **kwargs,
) -> TripleGenerator:
    """Return batches of examples, laid out as the settings say.

    Args:
        examples: from `read_examples`.
        settings: `entity_heads`, `max_length`, `window_overlap`, `buckets`.
        tokenizer: of the encoder.
        predicates: from `collect_predicates`.
        encoder_inputs: names of the inputs of the encoder.
        **kwargs: as in `TripleGenerator`.
    """
    return TripleGenerator(
        examples,
        tokenizer,
        predicates,
        encoder_inputs,
        settings.entity_heads,
        settings.max_length,
        settings.window_overlap,
        buckets=settings.buckets,
        progress="encode",
        **kwargs,
    )


def pointer_labels(
    example: Example, window: Window, predicates: list[str], entity_heads: str
) -> dict[str, np.ndarray]:
    """Return the true pairs of each pointer in one window.

    Returns:
        `entity_labels`, `head_labels` and `tail_labels` `[heads, pairs, 2]`, filled with -1, and
        `annotated` `[predicates]`: 1 where the record speaks of the predicate.
    """
    number = {predicate: index for index, predicate in enumerate(predicates)}
    entity, head, tail = {}, {}, {}
    for triple in example.triples:
        subject, object_ = window.token_span(triple.subject), window.token_span(triple.object)
        predicate = number.get(triple.predicate)
        if subject is None or object_ is None or predicate is None:
            continue
        first = 0 if entity_heads == "shared" else 2 * predicate
        entity.setdefault(first, {})[subject] = None
        entity.setdefault(first + 1, {})[object_] = None
        head.setdefault(predicate, {})[subject[0], object_[0]] = None
        tail.setdefault(predicate, {})[subject[1], object_[1]] = None
    annotated = example.annotated_predicates
    return {
        "entity_labels": fill(entity, entity_head_count(len(predicates), entity_heads)),
        "head_labels": fill(head, len(predicates)),
        "tail_labels": fill(tail, len(predicates)),
        "annotated": np.array(
            [annotated is None or predicate in annotated for predicate in predicates], np.float32
        ),
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
