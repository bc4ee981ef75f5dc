"""Batches: dicts keyed by the model's input names, in length buckets of static shape."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from core.base.extras import ask
from core.data.tokens import Window, split_into_windows
from core.fast.buckets import bucket_boundaries, cut_batches
from core.fast.feeding import Feeding

Batch = dict[str, np.ndarray]


class DataGenerator(Feeding):
    """Yield batches of encoded examples; a task defines how one batch is laid out.

    The order depends only on (seed, epoch), so a resumed training continues with the very next
    batch. Each bucket pads to one length, so XLA compiles each bucket once.

    Args:
        lengths: tokens of each example, special tokens included.
        batch_size: examples in a batch, over all replicas. The last batch of an epoch is filled
            up with examples of `loss_weight` 0.
        buckets: at most this many padded lengths; 1: all batches have one static shape.
        seed: order of the examples.
    """

    of_items: tuple[str, ...] = ()  # attributes with one entry per length: extras/cache stores them
    arguments: tuple[Any, ...] = ()  # of `of`, after the examples

    @classmethod
    def of(cls, examples: Any, *arguments: Any) -> Self:
        """Return the batches of examples; an optional extra may encode them once for all runs."""
        made: Any = ask("open_batches", cls, examples, arguments) or cls(examples, *arguments)
        made.arguments = arguments
        return made

    def __init__(
        self, lengths: Sequence[int], batch_size: int, buckets: int = 8, seed: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.boundaries = bucket_boundaries(*np.unique(lengths, return_counts=True), buckets)
        self.seed = seed

    def measure(self) -> None:
        """Compute sizes that all batches share, such as the number of label slots."""

    def make_batch(self, positions: np.ndarray, length: int) -> Batch:
        """Return the arrays of the examples at `positions` `[batch_size]`, padded to a length."""
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

    def pad_to(self, lengths: np.ndarray, epoch: int | None) -> np.ndarray:
        """Return the padded length of a batch, for each length of its longest example."""
        exact = epoch is None and self.exact
        return lengths if exact else self.boundaries[np.searchsorted(self.boundaries, lengths)]

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / real examples, and 0 for examples that fill up.
        """
        for positions, length in self.plan(epoch)[skip:]:
            rows = len(positions) if epoch is None and self.exact else self.batch_size
            filled, weight = np.resize(positions, rows), np.zeros(rows, np.float32)
            weight[: len(positions)] = 1 / len(positions)
            yield {**self.make_batch(filled, length), "loss_weight": weight}


class WindowGenerator(DataGenerator):
    """Batches of windows of texts; a task defines the labels of one window.

    One window is one example of `DataGenerator`; `self.examples` are records.

    Args:
        examples: records with a `text`.
        tokenizer: of the encoder.
        encoder_inputs: names of the encoder's inputs.
        settings: `max_length`, `window_overlap`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "labels")

    def __init__(
        self,
        examples: Sequence[Any],
        tokenizer: Any,
        encoder_inputs: Sequence[str],
        settings: Any,
        batch_size: int,
        labels: bool,
    ) -> None:
        self.examples, self.encoder_inputs = list(examples), list(encoder_inputs)
        texts = [example.text for example in examples]
        length, overlap = settings.max_length, settings.window_overlap
        windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
        self.windows = [window for group in windows for window in group]
        self.example_of = np.repeat(np.arange(len(windows)), [len(group) for group in windows])
        super().__init__([*map(len, self.windows)], batch_size, settings.buckets, settings.seed)
        self.labels = [
            self.label_window(self.examples[example], window)
            for example, window in zip(self.example_of, self.windows, strict=True)
            if labels
        ]
        self.measure()

    def label_window(self, example: Any, window: Window) -> Any:
        """Return the labels of one window of an example."""
        raise NotImplementedError

    def encoder_batch(self, positions: np.ndarray, length: int) -> Batch:
        """Return the encoder's inputs `[batch, length]`; `padding_mask` is 1 for tokens."""
        token_ids = [self.windows[position].token_ids for position in positions]
        arrays = {
            "token_ids": pad(token_ids, length),
            "segment_ids": np.zeros((len(positions), length), np.int32),
            "padding_mask": pad([np.ones(len(ids), np.int32) for ids in token_ids], length),
        }
        return {name: arrays[name] for name in self.encoder_inputs}


def pad(arrays: Sequence[np.ndarray], length: int, value: int = 0) -> np.ndarray:
    """Return one array `[len(arrays), length, ...]` of arrays whose first sizes differ."""
    padded = np.full((len(arrays), length, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
