"""Which examples make up each batch, and to which length they are padded."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from core.base.errors import InputError
from core.base.extras import ask
from core.data.records import record_weights
from core.fast.buckets import bucket_boundaries, cut_batches
from core.fast.feeding import Feeding


def in_float32(weights: Sequence[float]) -> np.ndarray:
    """Return weights of examples as an array.

    Raises:
        InputError: one is too large for float32.
    """
    with np.errstate(over="ignore"):
        found = np.array(weights, np.float32)
    if np.isfinite(found).all():
        return found
    raise InputError(
        "the weight of a record is too large: what its line, its texts and its file say multiplies "
        "to more than 3e38: lower one of them."
    )


class BatchPlan(Feeding):
    """The part of `DataGenerator` that chooses the examples of each batch, and their padded length.

    The order depends only on (seed, epoch), so a resumed training continues with the very next
    batch. Each bucket pads to one length, so XLA compiles it once.

    Arguments are those of `DataGenerator`.
    """

    of_items: tuple[str, ...] = ()  # attributes with one entry per example, for extras/cache
    arguments: tuple[Any, ...] = ()  # that `of` was called with, after the examples

    @classmethod
    def of(cls, examples: Any, *arguments: Any) -> Self:
        """Return the batches of examples; an optional extra may encode them once for all runs."""
        made: Any = ask("open_batches", cls, examples, arguments)
        if made is None:
            made = cls(examples, *arguments)
            made.weights = in_float32(record_weights(made))
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

    def fill(self, positions: np.ndarray, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of a whole batch and their weights; filler repeats, with weight 0.

        With `fits_batch` the last batch of prediction stays smaller.
        """
        rows = len(positions) if epoch is None and self.fits_batch else self.batch_size
        weights = np.zeros(rows)
        # `% size`: an extra may add further views of example n, as n + size, n + 2 size, ...
        weights[: len(positions)] = self.weights[positions % self.size]
        return np.resize(positions, rows), weights
