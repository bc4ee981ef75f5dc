"""Rows of several examples, none of which sees another: what decoder-only writers may train on.

A row has a block of sources and, behind it, a block of targets, as a row of one example has: the
head, which scores the whole vocabulary, reads the second alone. Who belongs together is told by the
number of the example in the row. Source: Krell et al. 2021, https://arxiv.org/abs/2107.02027.
"""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from core.base.workers import is_chief
from core.batches import Batch, DataGenerator, pad
from extras.writers.decoder import Decoder, PromptWriter

FITTED = 1024  # examples that are fitted into rows together: each is tried in each row
DRAW = 5  # tells these random numbers from others of the same seed
NO_TOKEN = -1  # where there is nothing to predict


def write_rows(decoder: Decoder, inputs: dict) -> tuple[dict, keras.KerasTensor]:
    """Return the inputs of a model that reads rows, and its logits `[batch, targets, vocabulary]`.

    Args:
        decoder: reads and writes.
        inputs: of the model that reads one example in a row.
    """
    names = ("source_examples", "target_examples")
    numbers = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    inputs = {**inputs, **numbers}
    return inputs, PromptWriter(decoder, name="row_writer")(**inputs)


class PackedGenerator(DataGenerator):
    """Batches of rows, in each of which several examples stand.

    What stands together is chosen once, by lengths alone: every epoch has equally many rows. In
    each epoch examples of the same lengths change places, and rows come in another order.

    Args:
        pairs: batches of one example in a row: a `DataGenerator` with `examples`, and the tokens of
            `sources` and `targets`, whose numbers are its `sizes`.
        row_length: tokens of a row, as many as those of any example.
    """

    def __init__(self, pairs: Any, row_length: int) -> None:
        self.examples = pairs.examples
        self.sources, self.targets = pairs.sources, pairs.targets
        # The last token of a source begins the target.
        self.sizes = np.maximum(pairs.sizes - [1, 0], 0)
        self.room = split_row(self.sizes, row_length)
        self.rows = fill_rows(self.sizes, self.room)
        self.placed: tuple[int, np.ndarray] = (-1, self.sizes)  # of no epoch
        lengths = [row_length] * len(self.rows)
        super().__init__(lengths, pairs.batch_size, 1, pairs.seed)

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        """Return the rows and the length of each batch; a row is epoch * rows + its own number."""
        first = (epoch or 0) * self.size
        return [(first + rows, length) for rows, length in super().plan(epoch)]

    def place(self, epoch: int) -> np.ndarray:
        """Return which example stands in the place of each in an epoch `[examples]`."""
        known, placed = self.placed
        if known != epoch:
            random = np.random.default_rng([self.seed, epoch, DRAW]).random(len(self.sizes))
            placed = np.empty(len(self.sizes), int)
            placed[np.lexsort(self.sizes.T)] = np.lexsort((random, *self.sizes.T))
            self.placed = (epoch, placed)
        return placed

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        """Return the arrays of rows `[batch_size]` as `plan` numbers them."""
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
        """Return the tokens of the source of an example: one of a prompt that has none."""
        source = self.sources[place]
        return source if len(source) else np.zeros(1, np.int32)

    def block(self, rows: list[list[np.ndarray]], side: int, value: int = 0) -> np.ndarray:
        """Return the tokens of rows `[rows, room]`: those of sources, 0, or of targets, 1."""
        joined = [np.concatenate(row).astype(np.int32) for row in rows]
        return pad(joined, int(self.room[side]), value)

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / target tokens of the whole batch, so that the
        weighted sum of the rows' losses is the mean over tokens; 0 for rows that fill up.
        """
        for batch in super().batches(epoch, skip):
            real = batch["loss_weight"] > 0
            tokens = np.sum(batch["target_examples"][real] > 0)
            yield {**batch, "loss_weight": (real / tokens).astype(np.float32)}


def pack(pairs: Any, row_length: int) -> PackedGenerator:
    """Return batches of rows, and print how much padding they have, and had before.

    Arguments as those of `PackedGenerator`; `pairs.block_lengths` has the places of an example.
    """
    packed = PackedGenerator(pairs, row_length)
    examples, rows, tokens = len(packed.sizes), packed.size, packed.sizes.sum()
    before = sum(len(batch) * sum(pairs.block_lengths(length)) for batch, length in pairs.plan(0))
    if is_chief():
        print(
            f"packing: {examples} examples in {rows} rows of {row_length} tokens; "
            f"{1 - tokens / (rows * row_length):.1%} of them are padding, one example in a row "
            f"would have {1 - tokens / before:.1%}"
        )
    return packed


def number_tokens(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return the number of its part, from 1 on, for each token."""
    return [np.full(len(part), number) for number, part in enumerate(parts, 1)]


def split_row(sizes: np.ndarray, length: int) -> np.ndarray:
    """Return how many tokens of a row are for sources, and how many for targets.

    Args:
        sizes: tokens of sources and of targets `[examples, 2]`.
        length: of a row, as many as the longest of both have together.
    """
    longest = sizes.max(axis=0)
    share = round(length * sizes[:, 1].sum() / sizes.sum())
    targets = np.clip(share, longest[1], length - longest[0])
    return np.array([length - targets, targets])


def fill_rows(sizes: np.ndarray, room: np.ndarray) -> list[np.ndarray]:
    """Return the examples of each row: the longest first, each in the first row it fits into.

    Long lists are dealt out to parts of the same lengths, of which each is fitted alone.

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
