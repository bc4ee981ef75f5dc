"""Lay out the events of examples as labels of the pointers or as tags."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from tokenizers import Tokenizer

from core.base.files import project_path
from core.batches import Batch, pad
from core.data.records import Span
from core.data.tokens import Window
from core.windows import WindowGenerator
from task.records import Event, Example, Schema, read_examples
from task.settings import Settings


class EventGenerator(WindowGenerator):
    """Batches of windows, with the labels of the model unless they are for prediction.

    The labels of a window are the spans inside it, and the links whose two spans are both inside.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        schema: from `collect_schema`; other types and roles are left out.
        encoder_inputs: names of the encoder's inputs.
        settings: `model`, and those of `WindowGenerator`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

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
        self.schema, self.model = schema, settings.model
        super().__init__(examples, tokenizer, encoder_inputs, settings, batch_size, labels)

    def label_window(self, example: Example, window: Window) -> dict | np.ndarray:
        make_labels = tag_labels if self.model == "crf" else pointer_labels
        return make_labels(example.events, window, self.schema)

    def measure(self) -> None:
        """Count the label slots of each pointer, at least 1, so that all batches have one shape."""
        self.most_pairs: dict[str, int] = {}  # pointer -> most true pairs of one of its heads
        if self.labels and self.model == "gplinker":
            for name in ("span", "head", "tail"):
                counts = [len(cells) for label in self.labels for cells in label[name].values()]
                self.most_pairs[name] = max([1, *counts])

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        batch = self.encoder_batch(positions, length)
        for name, most in self.most_pairs.items():  # none without labels, and none for tags
            heads = len(self.schema.labels if name == "span" else self.schema.types)
            batch[f"{name}_labels"] = np.full((len(positions), heads, most, 2), -1, np.int32)
            for row, position in zip(batch[f"{name}_labels"], positions, strict=True):
                for head, cells in self.labels[position][name].items():
                    row[head, : len(cells)] = list(cells)
        if self.labels and self.model == "crf":
            batch["tags"] = pad([self.labels[position] for position in positions], length)
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        return read_examples(project_path(path), labelled)


def taught_spans(event: Event, window: Window, schema: Schema) -> list[tuple[int, Span]]:
    """Return label and tokens of each trigger and argument that a window holds."""
    found = [((event.type, role), window.token_span(span)) for role, span in event.nodes()]
    return [
        (schema.labels.index(label), span)
        for label, span in found
        if span and label in schema.labels
    ]


def pointer_labels(
    events: Sequence[Event], window: Window, schema: Schema
) -> dict[str, dict[int, dict[Span, None]]]:
    """Return the true pairs in one window: pointer -> head -> pairs of tokens, each once.

    The heads of the span pointer are labels, those of the links are types. Worked example: tokens
    0 to 1 (label 1) and 3 (label 0) are an event: {"span": {0: (3, 3), 1: (0, 1)},
    "head": {0: (0, 3)}, "tail": {0: (1, 3)}}, each pair as the key of a dict.
    """
    types = list(schema.types)
    pairs: dict = {name: defaultdict(dict) for name in ("span", "head", "tail")}
    for event in events:
        taught = taught_spans(event, window, schema)
        for label, span in taught:
            pairs["span"][label][span] = None
        for (_, one), (_, two) in combinations(taught, 2):
            kind = types.index(event.type)
            first_tokens, last_tokens = link_cells(one, two)
            pairs["head"][kind][first_tokens] = pairs["tail"][kind][last_tokens] = None
    return pairs


def link_cells(one: Span, two: Span) -> tuple[Span, Span]:
    """Return the cells that link two spans: of their first tokens (head), of their last (tail).

    A link has no direction, so it is stored once. The span that starts first, or the shorter of
    two that start together, comes first: so the head pointer needs only the upper half of its
    grid. The tail pointer needs both halves: if its tokens were sorted too, a cell could not tell
    a span that encloses another from two that overlap.

    >>> link_cells((5, 6), (2, 9))  # tokens 2 to 9 enclose tokens 5 to 6
    ((2, 5), (9, 6))
    """
    (start, end), (other_start, other_end) = sorted((one, two))
    return (start, other_start), (end, other_end)


def tag_labels(events: Sequence[Event], window: Window, schema: Schema) -> np.ndarray:
    """Return the tag of each token of one window `[length]`, numbered as in core/layers/crf.py:

    0 is outside, 1 + 2 n begins label n, 2 + 2 n continues it.
    Of spans that overlap the first is kept; of spans that start together, the longest.
    """
    spans = {
        (span[0], -span[1], label)
        for event in events
        for label, span in taught_spans(event, window, schema)
    }
    tags, free = np.zeros(len(window), np.int32), 0
    for first, minus_last, label in sorted(spans):
        if first >= free:
            free = 1 - minus_last  # the token after the span
            tags[first:free] = 2 + 2 * label
            tags[first] = 1 + 2 * label
    return tags
