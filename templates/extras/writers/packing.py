"""Rows of several examples that don't see each other, for training decoder-only writers.

A row has a block of sources, then a block of targets, like a row with one example. The head, which
scores the whole vocabulary, reads only the second block. The number of an example in the row says
which tokens belong together. Source: Krell et al. 2021, https://arxiv.org/abs/2107.02027.
"""

from typing import Any

import keras
import numpy as np

from core.base.errors import InputError
from core.base.workers import is_chief
from core.batches import Batch, DataGenerator, pad
from core.data.records import WEIGHT
from extras.writers.decoder import Decoder, PromptWriter

FITTED = 1024  # examples packed together, because each is tried in each row
DRAW = 5  # separates these random numbers from others of the same seed
NO_TOKEN = -1  # if there is nothing to predict


def write_rows(decoder: Decoder, inputs: dict) -> tuple[dict, keras.KerasTensor]:
    """Return the inputs and logits `[batch, targets, vocabulary]` of a model for rows.

    Args:
        decoder: reads and writes.
        inputs: of the model with one example per row.
    """
    names = ("source_examples", "target_examples")
    numbers = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    inputs = {**inputs, **numbers}
    return inputs, PromptWriter(decoder, name="row_writer")(**inputs)


class PackedGenerator(DataGenerator):
    """Batches of rows with several examples each.

    The rows are planned once, only by lengths, so every epoch has the same number of rows. In each
    epoch examples of equal lengths change places, and rows come in another order.

    Args:
        pairs: batches with one example per row: a `DataGenerator` with `examples`, and the tokens
            of `sources` and `targets`; its `sizes` are their numbers of tokens.
        row_length: tokens of a row, at least those of any example.
    """

    def __init__(self, pairs: Any, row_length: int) -> None:
        self.examples = pairs.examples
        self.sources, self.targets = pairs.sources, pairs.targets
        # The last token of a source begins the target.
        self.sizes = np.maximum(pairs.sizes - [1, 0], 0)
        self.room = split_row(self.sizes, row_length)
        self.rows = fill_rows(self.sizes, self.room)
        self.placed: tuple[int, np.ndarray] = (-1, self.sizes)  # no epoch yet
        lengths = [row_length] * len(self.rows)
        super().__init__(lengths, pairs.batch_size, 1, pairs.seed)

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        """Return the rows and the length of each batch; a row is epoch * rows + its number."""
        first = (epoch or 0) * self.size
        return [(first + rows, length) for rows, length in super().plan(epoch)]

    def place(self, epoch: int) -> np.ndarray:
        """Return the example at each place in an epoch `[examples]`."""
        known, placed = self.placed
        if known != epoch:
            random = np.random.default_rng([self.seed, epoch, DRAW]).random(len(self.sizes))
            placed = np.empty(len(self.sizes), int)
            placed[np.lexsort(self.sizes.T)] = np.lexsort((random, *self.sizes.T))
            self.placed = (epoch, placed)
        return placed

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        """Return the arrays of rows `[batch_size]`, numbered by `plan`."""
        rows = []
        for number in examples:
            epoch, row = divmod(int(number), self.size)
            rows.append(self.place(epoch)[self.rows[row]])
        read = [[self.source(place) for place in row] for row in rows]
        sources = [[source[:-1] for source in row] for row in read]
        labels = [[self.targets[place] for place in row] for row in rows]
        before = [
            [np.append(source[-1:], target[:-1]) for source, target in zip(*both, strict=True)]
            for both in zip(read, labels, strict=True)
        ]
        source_examples = self.block([number_tokens(row) for row in sources], 0)
        return {
            "token_ids": self.block(sources, 0),
            "padding_mask": (source_examples > 0).astype(np.int32),
            "target_ids": self.block(before, 1),
            "target_labels": self.block(labels, 1, NO_TOKEN),
            "source_examples": source_examples,
            "target_examples": self.block([number_tokens(row) for row in labels], 1),
        }

    def source(self, place: int) -> np.ndarray:
        """Return the source tokens of an example; an empty source has one."""
        source = self.sources[place]
        return source if len(source) else np.zeros(1, np.int32)

    def block(self, rows: list[list[np.ndarray]], side: int, value: int = 0) -> np.ndarray:
        """Return the tokens of rows `[rows, room]`: of sources (0) or targets (1)."""
        joined = [np.concatenate(row).astype(np.int32) for row in rows]
        return pad(joined, int(self.room[side]), value)

    @property
    def mean_tokens(self) -> float:
        """The tokens of a row, without padding."""
        return float(np.sum(self.sizes) / self.size)

    def loss_divisor(self, batch: Batch, real: int) -> int:
        """Return the target tokens of a batch: the loss of a row is a sum over its tokens."""
        return int(np.sum(batch["target_examples"][:real] > 0))


def pack(pairs: Any, row_length: int) -> PackedGenerator:
    """Return batches of rows, and print their padding with and without packing.

    The arguments are those of `PackedGenerator`; `pairs.padded_lengths` are the places of an
    example in each bucket.

    Raises:
        InputError: records have weights, and those of a row would share one.
    """
    if any(weight != 1 for weight in pairs.weights):
        raise InputError(
            f'records have a "{WEIGHT}", but with writers.packing those of a row share one: set '
            "writers.packing = false."
        )
    packed = PackedGenerator(pairs, row_length)
    examples, rows, tokens = len(packed.sizes), packed.size, packed.sizes.sum()
    places = dict(zip(pairs.boundaries.tolist(), pairs.padded_lengths.sum(axis=1), strict=True))
    before = sum(len(batch) * places[length] for batch, length in pairs.plan(0))
    if is_chief():
        print(
            f"packing: {examples} examples in {rows} rows of {row_length} tokens; "
            f"{1 - tokens / (rows * row_length):.1%} of them are padding, one example in a row "
            f"would have {1 - tokens / before:.1%}"
        )
    return packed


def number_tokens(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return for each token the number of its part, from 1 on."""
    return [np.full(len(part), number) for number, part in enumerate(parts, 1)]


def split_row(sizes: np.ndarray, length: int) -> np.ndarray:
    """Return the numbers of source tokens and of target tokens in a row.

    Args:
        sizes: tokens of sources and of targets `[examples, 2]`.
        length: of a row, enough for the longest source plus the longest target.
    """
    longest = sizes.max(axis=0)
    share = round(length * sizes[:, 1].sum() / sizes.sum())
    targets = np.clip(share, longest[1], length - longest[0])
    return np.array([length - targets, targets])


def fill_rows(sizes: np.ndarray, room: np.ndarray) -> list[np.ndarray]:
    """Return the examples of each row: longest first, each in the first row that fits.

    Long lists are divided into parts of similar lengths, and each part is packed separately.

    Args:
        sizes: tokens of sources and of targets `[examples, 2]`.
        room: for both in a row.
    """
    order, rows = np.argsort(-sizes.sum(axis=1), kind="stable"), []
    parts = -(-len(order) // FITTED)
    for first in range(parts):
        left = np.tile(room, (len(order[first::parts]), 1))
        found: list[list[int]] = [[] for _ in left]
        for example in order[first::parts]:
            row = int((left >= sizes[example]).all(axis=1).argmax())
            left[row] -= sizes[example]
            found[row].append(int(example))
        rows += [np.array(row) for row in found if row]
    return rows
