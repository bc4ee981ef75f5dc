"""The batches of an epoch as core plans them, in a fraction of the memory: for millions of items.

Core's list has an array and a tuple for each batch, besides the order in 8 bytes an item. Here a
batch is cut out of all items when it is asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.batches import DataGenerator


class Plan(Sequence):
    """The items and the padded length of each batch, in the place of a list of them.

    Args:
        dealt: all items, batch after batch; the last batch may have fewer than `batch_size`.
        lengths: of each batch.
        turns: the numbers of the batches, in the order in which they are made.
    """

    def __init__(
        self, dealt: np.ndarray, lengths: np.ndarray, batch_size: int, turns: np.ndarray
    ) -> None:
        self.dealt, self.lengths, self.batch_size, self.turns = dealt, lengths, batch_size, turns

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, index: Any) -> Any:
        turn, size = self.turns[index], self.batch_size
        if isinstance(index, slice):
            return Plan(self.dealt, self.lengths, size, turn)
        return self.dealt[turn * size : (turn + 1) * size], int(self.lengths[turn])


def plan(generator: DataGenerator, epoch: int | None) -> Plan:
    """Return what `DataGenerator.plan` returns for an epoch, to the last item."""
    size, batch_size = generator.size, generator.batch_size
    if epoch is None:
        order, random = np.argsort(generator.lengths, kind="stable").astype(np.int32), None
    else:
        order, random = (
            np.arange(size, dtype=np.int32),
            np.random.default_rng([generator.seed, epoch]),
        )
        random.shuffle(order)  # which draws the same numbers for any width of these
    lengths, shorter = generator.lengths[order], -1
    dealt, begin = np.empty_like(order), 0
    for boundary in generator.boundaries:
        members = order[(lengths > shorter) & (lengths <= boundary)]
        shorter = boundary
        dealt[begin : begin + len(members)] = members
        begin += len(members)
    # What a bucket leaves over joins the next one, so batches are cut one after the other, and the
    # last item of each tells its padded length.
    turns = np.arange(-(-size // batch_size))
    lasts = np.minimum((turns + 1) * batch_size, size) - 1
    padded = generator.pad_to(generator.lengths[dealt[lasts]], epoch)
    if random is not None:
        full = size // batch_size
        turns[:full] = random.permutation(full)
    return Plan(dealt, padded, batch_size, turns)
