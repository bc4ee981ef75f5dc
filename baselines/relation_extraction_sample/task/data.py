"""Read and check examples; lay out their triples as labels of the pointers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import project_path
from core.batches import Batch
from core.data.annotated import read_annotated
from core.data.records import Id, Span, collect, read_field, read_id, read_records, read_span
from core.data.tokens import Window
from core.windows import WindowGenerator
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
    """One record of a file; no `annotated_predicates`: all are annotated."""

    id: Id
    text: str
    triples: tuple[Triple, ...]
    annotated_predicates: tuple[str, ...] | None
    line: int
    weight: float = 1.0
    levels: tuple = ()  # (probability, triples at least that probable), if one is below 1


def read_examples(path: str | Path, require_triples: bool = True) -> Sequence[Example]:
    """Read a JSON Lines file and check every field.

    Args:
        path: records `{"id", "text", "triples", "annotated_predicates" (optional)}`.
        require_triples: False for files to predict, whose triples are unknown.

    Raises:
        InputError: names file, line and what is wrong with the record.
    """
    return read_records(path, FIELDS, partial(read_example, require_triples=require_triples))


def read_example(record: dict, line: int, require_triples: bool) -> Example:
    """Check one record."""
    text = read_field(record, "text", str)
    wanted = require_triples or "triples" in record
    items = read_field(record, "triples", list) if wanted else []
    triples = tuple(dict.fromkeys(read_triple(item, text) for item in items))
    annotated = read_annotated(record, [triple.predicate for triple in triples])
    return Example(read_id(record), text, triples, annotated, line)  # `read_records` sets `weight`


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
    if predicates := collect(find_predicates, examples, joined=True):
        return sorted(predicates)
    raise InputError("no training example has a triple: there is nothing to learn.")


def find_predicates(examples: Sequence[Example]) -> set[str]:
    """Return the predicates that examples name."""
    predicates = set()
    for example in examples:
        predicates |= {triple.predicate for triple in example.triples}
        predicates.update(example.annotated_predicates or ())
    return predicates


class TripleGenerator(WindowGenerator):
    """Batches of windows, with the labels of the pointers unless they are to be predicted.

    A triple is a label only in windows that contain both of its spans.

    Arguments are those of `WindowGenerator`, and `predicates`: triples of others are ignored.
    """

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
        self.predicates, self.entity_heads = list(predicates), settings.entity_heads
        super().__init__(examples, tokenizer, encoder_inputs, settings, batch_size, labels)

    def label_window(self, example: Example, window: Window) -> dict[str, np.ndarray]:
        return pointer_labels(example, window, self.predicates, self.entity_heads)

    def measure(self) -> None:
        """Give the labels of all batches one width: a static shape, at least 1."""
        names = ("entity_labels", "head_labels", "tail_labels") if self.labels else ()
        widths = {name: [label[name].shape[1] for label in self.labels] for name in names}
        self.pairs = {name: max(1, *counts) for name, counts in widths.items()}

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        batch = self.encoder_batch(positions, length)
        for name, pairs in self.pairs.items():
            heads = len(self.labels[0][name])
            batch[name] = np.full((len(positions), heads, pairs, 2), -1, np.int32)
            for row, position in zip(batch[name], positions, strict=True):
                own = self.labels[position][name]  # [heads, pairs of this window, 2]
                row[:, : own.shape[1]] = own
        if self.labels:
            batch["annotated"] = np.stack([self.labels[p]["annotated"] for p in positions])
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        return read_examples(project_path(path), labelled)


def pointer_labels(
    example: Example, window: Window, predicates: list[str], entity_heads: str
) -> dict[str, np.ndarray]:
    """Return the true pairs of each pointer in one window.

    Worked example: of "Ada founded Zenco" the tokens 1 and 3 are related by the only predicate. So
    `entity_labels` are [[[1, 1]], [[3, 3]]]; the heads and the tails are linked by [[[1, 3]]].

    Returns:
        `entity_labels`, `head_labels` and `tail_labels` `[heads, pairs, 2]`, filled with -1, and
        `annotated` `[predicates]`: 1 where the record was annotated for the predicate.
    """
    number = {predicate: index for index, predicate in enumerate(predicates)}
    # Number of a head -> its pairs. They are keys of a dict, which is a set that keeps its order.
    entity, head, tail = (defaultdict[int, dict](dict) for _ in range(3))
    for triple in example.triples:
        subject, object_ = window.token_span(triple.subject), window.token_span(triple.object)
        predicate = number.get(triple.predicate)
        if subject is None or object_ is None or predicate is None:
            continue  # the spans of a triple are labels only together
        subjects = 0 if entity_heads == "shared" else 2 * predicate
        entity[subjects][subject] = entity[subjects + 1][object_] = None
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
