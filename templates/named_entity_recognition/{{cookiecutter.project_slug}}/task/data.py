"""Lay out the entities of examples as labels of spans or as tags."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Tokenizer

from core.base.files import project_path
from core.batches import Batch, pad
from core.data.records import Span
from core.data.tokens import Window
from core.windows import WindowGenerator
from task.records import Entity, Example, read_examples
from task.settings import Settings


class EntityGenerator(WindowGenerator):
    """Batches of windows, with the labels of the model unless they are for prediction.

    The labels of a window are the entities inside it.

    Args:
        examples: from `read_examples`.
        tokenizer: of the encoder.
        types: of entities; others are left out.
        encoder_inputs: names of the encoder's inputs.
        settings: `tagger`, and those of `WindowGenerator`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

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
        self.types, self.tagger, self.settings = list(types), settings.tagger, settings
        super().__init__(examples, tokenizer, encoder_inputs, settings, batch_size, labels)

    def label_window(self, example: Example, window: Window) -> dict | np.ndarray:
        make_labels = tag_labels if self.tagger == "crf" else span_labels
        return make_labels(example.entities, window, self.types)

    def measure(self) -> None:
        """Give the labels of all batches one width: a static shape, of which no axis is empty."""
        windows = self.labels if self.tagger == "pointer" else []
        self.pairs = max([1, *(len(spans) for label in windows for spans in label.values())])

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        batch = self.encoder_batch(positions, length)
        if self.labels and self.tagger == "crf":
            batch["tags"] = pad([self.labels[position] for position in positions], length)
        elif self.labels:
            shape = len(positions), len(self.types), self.pairs, 2
            batch["span_labels"] = np.full(shape, -1, np.int32)
            for row, position in zip(batch["span_labels"], positions, strict=True):
                for head, spans in self.labels[position].items():
                    row[head, : len(spans)] = list(spans)
        return batch

    def read_file(self, path: str, labelled: bool) -> Sequence[Example]:
        return read_examples(project_path(path), self.settings, labelled)


def taught_spans(
    entities: Iterable[Entity], window: Window, types: Sequence[str]
) -> list[tuple[int, Span]]:
    """Return type, first and last token of each entity that a window holds."""
    found = [(entity.type, window.token_span(entity.span)) for entity in entities]
    return [(types.index(kind), span) for kind, span in found if span and kind in types]


def span_labels(
    entities: Iterable[Entity], window: Window, types: Sequence[str]
) -> dict[int, dict[Span, None]]:
    """Return the true spans of tokens in one window by type, each once."""
    spans: dict[int, dict[Span, None]] = defaultdict(dict)
    for kind, span in taught_spans(entities, window, types):
        spans[kind][span] = None
    return spans


def tag_labels(entities: Iterable[Entity], window: Window, types: Sequence[str]) -> np.ndarray:
    """Return the tag of each token of one window `[length]`, numbered as in core/layers/crf.py:

    0 is outside, 1 + 2 n begins type n, 2 + 2 n continues it.
    Of entities that overlap the first is kept; of entities that start together, the longest.
    """

    def longest_first(taught: tuple[int, Span]) -> tuple:
        kind, (first, last) = taught
        return first, -last, kind

    tags, free = np.zeros(len(window), np.int32), 0
    for kind, (first, last) in sorted(taught_spans(entities, window, types), key=longest_first):
        if first >= free:
            free = last + 1
            tags[first:free] = 2 + 2 * kind
            tags[first] = 1 + 2 * kind
    return tags
