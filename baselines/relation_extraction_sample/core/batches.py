"""Batches: dicts of arrays by the model's input names; texts are padded to one of a few lengths."""

from collections.abc import Iterator, Sequence

import numpy as np

from core.fast.batch_plan import BatchPlan

Batch = dict[str, np.ndarray]


class DataGenerator(BatchPlan):
    """Yield batches of encoded examples; a task makes the arrays of one batch in `make_batch`.

    A row of a batch is a record, or a part of one. `BatchPlan.plan` returns the positions of each
    batch, which are the indices of its rows among all, and its padded length. `BatchPlan.fill`
    repeats rows until a batch is full, and returns all and their weights, 0 for repeated ones.

    Args of `BatchPlan`, whose constructor this class inherits:
        lengths: tokens of each row, special tokens included.
        batch_size: rows of a batch, over all replicas. In prediction a batch may be smaller and
            padded to its longest text, but not on a TPU.
        buckets: at most so many different padded lengths; 1: all batches have one static shape.
        seed: decides the order of the rows.
    """

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        """Return the arrays of the rows at `positions` `[rows]`, padded to a length."""
        raise NotImplementedError

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch.

        Each has `loss_weight` `[rows]`: the weight of the record divided by `loss_divisor`, and 0
        for filler. So the loss of a batch is the sum of its rows' loss * `loss_weight`.

        Args:
            epoch: its number, which gives the order; None: for prediction, shortest examples first.
            skip: batches to leave out, when a training is resumed.
        """
        for positions, length in self.plan(epoch)[skip:]:
            filled, loss_weights = self.fill(positions, epoch)
            batch = self.make_batch(filled, length)
            loss_weights = loss_weights / self.loss_divisor(batch, len(positions))
            yield {**batch, "loss_weight": loss_weights.astype(np.float32)}

    def loss_divisor(self, batch: Batch, real_rows: int) -> int:
        """Return what the summed loss is divided by: real rows, unless a task counts otherwise."""
        return real_rows


def pad(arrays: Sequence[np.ndarray], length: int, value: int = 0) -> np.ndarray:
    """Return one array `[len(arrays), length, ...]` from arrays of different lengths."""
    padded = np.full((len(arrays), length, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
