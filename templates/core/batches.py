"""Batches: dicts keyed by the model's input names, in length buckets of static shape."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from core.base.extras import ask
from core.data.records import record_weights
from core.fast.buckets import bucket_boundaries, cut_batches
from core.fast.feeding import Feeding

Batch = dict[str, np.ndarray]


class DataGenerator(Feeding):
    """Yield batches of encoded examples; a task defines how one batch is laid out.

    An example is a row of a batch. The order depends only on (seed, epoch), so a resumed training
    continues with the very next batch. Each bucket pads to one length, so XLA compiles it once.
    `Feeding` (core/fast/feeding.py) hands batches to TensorFlow; it has `pad_to` and `fits_batch`.

    Args:
        lengths: tokens of each example, special tokens included.
        batch_size: examples in a batch, over all replicas. The last batch of an epoch is filled
            up with examples of `loss_weight` 0.
        buckets: at most this many padded lengths; 1: all batches have one static shape.
        seed: order of the examples.
    """

    of_items: tuple[str, ...] = ()  # attributes with one entry per example, for extras/cache
    arguments: tuple[Any, ...] = ()  # that `of` was called with, after the examples

    @classmethod
    def of(cls, examples: Any, *arguments: Any) -> Self:
        """Return the batches of examples; an optional extra may encode them once for all runs."""
        made: Any = ask("open_batches", cls, examples, arguments)
        if made is None:
            made = cls(examples, *arguments)
            made.weights = np.array(record_weights(made), np.float32)
        made.arguments = arguments
        return made

    def __init__(
        self, lengths: Sequence[int], batch_size: int, buckets: int = 8, seed: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        distinct, counts = np.unique(lengths, return_counts=True)
        self.boundaries = bucket_boundaries(distinct, counts, buckets)
        self.seed = seed
        self.weights: Any = np.ones(len(self.lengths), np.float32)  # of each example in the loss

    def measure(self) -> None:
        """Compute sizes that all batches share, such as the number of label slots."""

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        """Return the arrays of the examples at `positions` `[rows]`, padded to a length."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Examples in an epoch."""
        return len(self.lengths)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-self.size // self.batch_size)

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        """Return the positions of the examples and the padded length of each batch of an epoch.

        What is left over in a bucket joins the next longer one, so at most one batch, the last, is
        partial, and every epoch has the same number of batches. Without an epoch the shortest
        examples come first, for prediction.
        """
        if epoch is None:
            order, random = np.argsort(self.lengths, kind="stable"), None
        else:
            order, random = np.arange(len(self.lengths)), np.random.default_rng([self.seed, epoch])
            random.shuffle(order)
        lengths = self.pad_to(self.lengths[order], epoch)
        return cut_batches(order, lengths, self.batch_size, random)

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[rows]`: the weight of the record / `count_targets`, and 0 for
        filler examples.
        """
        for positions, length in self.plan(epoch)[skip:]:
            real = len(positions)
            # `fits_batch`: a last batch of prediction may be smaller. Others repeat examples.
            rows = real if epoch is None and self.fits_batch else self.batch_size
            batch = self.make_batch(np.resize(positions, rows), length)
            weight = np.zeros(rows)
            # `% size`: an extra may number further views of example n as n + size, n + 2 size, ...
            weight[:real] = self.weights[positions % self.size] / self.count_targets(batch, real)
            yield {**batch, "loss_weight": weight.astype(np.float32)}

    def count_targets(self, batch: Batch, real: int) -> int:
        """Return what the loss is a mean over: the real examples of a batch, without filler."""
        return real


def pad(arrays: Sequence[np.ndarray], length: int, value: int = 0) -> np.ndarray:
    """Return one array `[len(arrays), length, ...]` of arrays whose first axes differ in length."""
    padded = np.full((len(arrays), length, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
