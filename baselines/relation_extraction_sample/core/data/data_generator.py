"""Batches: dicts keyed by the model's input names, in length buckets of static shape."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf  # types in quotes: processes of extras/cache load it only when used

from core.base.errors import InputError
from core.base.extras import ask

Batch = dict[str, np.ndarray]


class DataGenerator:
    """Yield batches of encoded examples; a task says how one batch is laid out.

    The order depends on (seed, epoch) alone, so a resumed training goes on with the very next
    batch. Each bucket pads to one length, so XLA compiles each once.

    Args:
        lengths: tokens of each example, special ones included.
        batch_size: examples in a batch, over all replicas. The last batch of an epoch is filled
            up with examples of `loss_weight` 0.
        buckets: padded lengths at the most; 1: all batches have one static shape.
        seed: order of the examples.
    """

    failure: Exception | None = None  # of a batch that TensorFlow asked for
    exact = False  # prediction fills up no batch, and pads each to its longest example
    of_items: tuple[str, ...] = ()  # names of sequences with an entry for each length

    @classmethod
    def of(cls, examples: Any, *arguments: Any) -> Self:
        """Return the batches of examples; with extras/cache these are encoded once for all."""
        made: Any = ask("open_batches", cls, examples, arguments) or cls(examples, *arguments)
        made.arguments = arguments
        return made

    def measure(self) -> None:
        """Set what follows from all items together, as the width of their labels."""

    def __init__(
        self, lengths: Sequence[int], batch_size: int, buckets: int = 8, seed: int = 0
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.boundaries = bucket_boundaries(*np.unique(lengths, return_counts=True), buckets)
        self.seed = seed

    def make_batch(self, examples: np.ndarray, length: int) -> Batch:
        """Return the arrays of examples at positions `[batch_size]`, padded to a length."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Examples of an epoch."""
        return len(self.lengths)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-self.size // self.batch_size)

    def plan(self, epoch: int | None) -> list[tuple[np.ndarray, int]]:
        """Return the examples and the padded length of each batch of an epoch.

        What a bucket leaves over joins the next longer one, so that one batch at the most, the
        last, is partial, and every epoch has equally many batches. Without an epoch the shortest
        come first, for prediction.
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

    def first_batch(self, epoch: int | None) -> tuple[np.ndarray, int]:
        """Return the examples and the padded length of the first batch of an epoch."""
        return self.plan(epoch)[0]

    def batches(self, epoch: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `skip`.

        Each has `loss_weight` `[batch_size]`: 1 / real examples, and 0 for those that fill up.
        """
        for examples, length in self.plan(epoch)[skip:]:
            rows = len(examples) if epoch is None and self.exact else self.batch_size
            filled, weight = np.resize(examples, rows), np.zeros(rows, np.float32)
            weight[: len(examples)] = 1 / len(examples)
            yield {**self.make_batch(filled, length), "loss_weight": weight}

    def stream(self, epoch: int, skip: int) -> Iterator[Batch]:
        """Yield the batches from one position on, epoch after epoch without end."""
        while True:
            yield from self.batches(epoch, skip)
            epoch, skip = epoch + 1, 0

    def to_dataset(
        self, epoch: int = 0, skip: int = 0, strategy: "tf.distribute.Strategy | None" = None
    ) -> "tf.data.Dataset":
        """Return the batches from one position on, epoch after epoch without end.

        Args:
            epoch: the first; `skip` batches of it are consumed already.
            strategy: each of its replicas, on whichever worker, gets its rows of every batch.
        """
        stream = functools.partial(self.stream, epoch, skip)
        if strategy is None or strategy.num_replicas_in_sync == 1:
            return self.dataset_of(stream)

        def rows_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            replicas = context.num_replicas_in_sync
            own = replicas // context.num_input_pipelines
            first = context.input_pipeline_id * own
            return self.dataset_of(stream, replicas, range(first, first + own))

        return strategy.distribute_datasets_from_function(rows_of_worker)

    @contextlib.contextmanager
    def own_errors(self) -> Iterator[None]:
        """Raise what went wrong in a batch as it was, not as TensorFlow tells of it."""
        try:
            yield
        except tf.errors.OpError as error:
            raise self.failure or error from None

    def to_prediction_dataset(self, first: int = 0, every: int = 1) -> "tf.data.Dataset":
        """Return batches of prediction, shortest first: every so many from the first on."""
        return self.dataset_of(lambda: itertools.islice(self.batches(None), first, None, every))

    def dataset_of(
        self, stream: Callable[[], Iterator[Batch]], parts: int = 1, own: Sequence[int] = (0,)
    ) -> "tf.data.Dataset":
        """Wrap a generator function; TensorFlow gets copies, in whose memory it may compute.

        Args:
            stream: yields batches.
            parts: that each batch is cut into, by rows; `own`: the numbers of those to yield.
        """
        rows = self.batch_size // parts

        def copies() -> Iterator[Batch]:
            try:
                for batch in stream():
                    for start in (part * rows for part in own):
                        yield {name: np.array(a[start : start + rows]) for name, a in batch.items()}
            except Exception as error:
                self.failure = error
                raise

        specs = self.signature(rows)
        if self.exact:  # the last batch may have fewer
            specs = {n: tf.TensorSpec([None, *s.shape[1:]], s.dtype) for n, s in specs.items()}
        batches = tf.data.Dataset.from_generator(copies, output_signature=specs)
        # There is nothing to tune, and a pass that ends may have to wait until the tuner wakes up.
        options = tf.data.Options()
        options.autotune.enabled = False
        return batches.prefetch(4).with_options(options)

    def signature(self, rows: int) -> "dict[str, tf.TensorSpec]":
        """Return shapes and types of a batch of so many rows; an axis that grows is not static."""
        first, length = self.first_batch(None)
        example, longer = (self.make_batch(np.resize(first, rows), length + n) for n in (0, 1))
        static = len(self.boundaries) == 1 and not self.exact
        specs = {"loss_weight": tf.TensorSpec([rows], np.float32)}
        for name, array in example.items():
            sizes = zip(array.shape, longer[name].shape, strict=True)
            shape = [size if static or size == other else None for size, other in sizes]
            specs[name] = tf.TensorSpec(shape, array.dtype)
        return specs

    def check_keys(self, model: "keras.Model") -> None:
        """Compare the keys of a batch with the inputs of the model, before the first step.

        Raises:
            InputError: names the keys that are missing and those that nothing reads.
        """
        examples, length = self.first_batch(None)
        keys = set(self.make_batch(np.resize(examples, self.batch_size), length))
        wanted = {tensor.name for tensor in model.inputs}
        if keys != wanted:
            raise InputError(
                f"the batches of {type(self).__name__} don't fit the model: missing keys "
                f"{sorted(wanted - keys)}, keys that no input reads {sorted(keys - wanted)}; make "
                "make_batch and the names of the inputs agree."
            )


def cut_batches(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, random: np.random.Generator | None
) -> list[tuple[np.ndarray, int]]:
    """Cut examples into batches of one bucket each; what a bucket leaves over joins the next.

    Args:
        order: the examples in the order in which they are dealt out.
        lengths: the padded length of each; in training it is the boundary of its bucket.
        batch_size: examples in a batch; one batch at the most, the last, has fewer.
        random: shuffles the full batches; None: shortest first.
    """
    batches, left_over = [], order[:0]
    for length in np.unique(lengths):
        members = np.concatenate([left_over, order[lengths == length]])
        full = len(members) - len(members) % batch_size
        batches += [
            (members[start : start + batch_size], int(length))
            for start in range(0, full, batch_size)
        ]
        left_over = members[full:]
    if random is not None:
        batches = [batches[position] for position in random.permutation(len(batches))]
    if len(left_over):
        batches.append((left_over, int(lengths[np.isin(order, left_over)].max())))
    return batches


def bucket_boundaries(lengths: np.ndarray, counts: np.ndarray, buckets: int) -> np.ndarray:
    """Return the padded lengths, `buckets` at the most, that waste the fewest tokens.

    Exact, by dynamic programming: cheapest(b, j) = min over i < j of cheapest(b - 1, i) + the
    examples of the lengths i+1..j, padded to length j.

    The lengths rise; `counts` are the examples of each.
    """
    total = np.concatenate([[0], np.cumsum(counts)])
    cost = np.where(
        np.tri(len(lengths) + 1, len(lengths), -1).astype(bool),
        np.inf,
        (total[None, 1:] - total[:, None]) * lengths[None, :],
    )
    cheapest = np.concatenate([[0.0], np.full(len(lengths), np.inf)])
    choices = []
    for _ in range(min(buckets, len(lengths))):
        candidates = cheapest[:, None] + cost
        choices.append(candidates.argmin(axis=0))
        cheapest = np.concatenate([[np.inf], candidates.min(axis=0)])
    boundaries, end = [], len(lengths)
    for choice in reversed(choices):
        boundaries.append(lengths[end - 1])
        end = choice[end - 1]
    return np.array(boundaries[::-1])


def pad(arrays: Sequence[np.ndarray], length: int, value: int = 0) -> np.ndarray:
    """Return one array `[len(arrays), length, ...]` of arrays whose first sizes differ."""
    padded = np.full((len(arrays), length, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
