"""Which examples make up each batch, how far they are padded, and how they reach TensorFlow."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf  # types in quotes: processes of extras/cache load it only when used

from core.base.errors import InputError
from core.base.extras import ask
from core.data.records import record_weights
from core.fast.buckets import bucket_boundaries, cut_batches

ENDLESS = 2**40  # batches of a training, which `fit` ends


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


class BatchPlan:
    """The part of `DataGenerator` that chooses the examples of each batch, and feeds a model.

    The order depends only on (seed, epoch), so a resumed training continues with the very next
    batch. Each bucket pads to one length, so XLA compiles it once.

    Arguments are those of `DataGenerator`, which has `make_batch` and `batches`.
    """

    make_batch: Callable
    batches: Callable

    of_items: tuple[str, ...] = ()  # attributes with one entry per example, for extras/cache
    arguments: tuple[Any, ...] = ()  # that `of` was called with, after the examples
    fits_batch = False  # prediction: pad each batch to its own longest example, and fill up none
    failure: Exception | None = None  # raised while TensorFlow asked for a batch

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

    def pad_to(self, lengths: np.ndarray, epoch: int | None) -> np.ndarray:
        """Return padded lengths: those of buckets; unchanged in prediction with `fits_batch`."""
        fits = epoch is None and self.fits_batch  # prediction: no bucket
        return lengths if fits else self.boundaries[np.searchsorted(self.boundaries, lengths)]

    def fit_to_batches(self, fits: bool) -> None:
        """Set `fits_batch`; it must be False on a TPU, which needs the few shapes of training."""
        self.fits_batch = fits

    def fill(self, positions: np.ndarray, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of a whole batch and their weights; filler repeats, with weight 0.

        With `fits_batch` the last batch of prediction stays smaller.
        """
        rows = len(positions) if epoch is None and self.fits_batch else self.batch_size
        weights = np.zeros(rows)
        # `% size`: an extra may add further views of example n, as n + size, n + 2 size, ...
        weights[: len(positions)] = self.weights[positions % self.size]
        return np.resize(positions, rows), weights

    def first_batch(self, epoch: int | None) -> tuple[np.ndarray, int]:
        """Return the positions and the padded length of the first batch of an epoch."""
        return self.plan(epoch)[0]

    def stream(self, epoch: int, skip: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches from one position on, epoch after epoch, without end."""
        while True:
            yield from self.batches(epoch, skip)
            epoch, skip = epoch + 1, 0

    def to_dataset(
        self, epoch: int = 0, skip: int = 0, strategy: "tf.distribute.Strategy | None" = None
    ) -> "tf.data.Dataset":
        """Return the batches from one position on, epoch after epoch, without end.

        Args:
            epoch: the first epoch.
            skip: batches of it that are already consumed.
            strategy: each of its replicas, on any worker, gets its rows of every batch.
        """
        stream = functools.partial(self.stream, epoch, skip)
        if strategy is None or strategy.num_replicas_in_sync == 1:
            return self.dataset_of(stream, ENDLESS)

        def rows_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            replicas = context.num_replicas_in_sync
            own = replicas // context.num_input_pipelines
            first = context.input_pipeline_id * own
            return self.dataset_of(stream, ENDLESS, replicas, range(first, first + own))

        return strategy.distribute_datasets_from_function(rows_of_worker)

    def to_prediction_dataset(self, first: int = 0, every: int = 1) -> "tf.data.Dataset":
        """Return every `every`-th batch of prediction, starting at `first`; shortest first."""
        count = len(range(first, len(self.plan(None)), every))
        return self.dataset_of(
            lambda: itertools.islice(self.batches(None), first, None, every), count
        )

    def dataset_of(
        self,
        stream: Callable[[], Iterator[dict[str, np.ndarray]]],
        count: int,
        parts: int = 1,
        own: Sequence[int] = (0,),
    ) -> "tf.data.Dataset":
        """Wrap a function that yields `count` batches.

        Args:
            stream: yields batches.
            count: how many.
            parts: number of parts that the rows of a batch are cut into.
            own: which of these parts are yielded.
        """
        rows = self.batch_size // parts
        specs = self.signature(rows)
        if self.fits_batch:  # the last batch may have fewer
            specs = {n: tf.TensorSpec([None, *s.shape[1:]], s.dtype) for n, s in specs.items()}
        passes: list[Iterator[dict[str, np.ndarray]]] = []

        def begin() -> np.int64:
            passes.append(copy_parts(stream(), rows, own))
            return np.int64(len(passes) - 1)

        def follow(number: np.ndarray) -> list[np.ndarray]:
            try:
                batch = next(passes[number])
            except Exception as error:
                self.failure = self.failure or error  # it is asked again after a failure
                raise
            return [batch[name] for name in specs]

        def batch_of(number: tf.Tensor) -> dict[str, tf.Tensor]:
            arrays = tf.numpy_function(follow, [number], [spec.dtype for spec in specs.values()])
            named = zip(specs.items(), arrays, strict=True)
            return {name: tf.ensure_shape(array, spec.shape) for (name, spec), array in named}

        # As `from_generator` does, which checks each array once more and takes twice as long.
        def batches_of(number: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.range(count * len(own)).map(lambda _: batch_of(number))

        first = tf.data.Dataset.range(1).map(lambda _: tf.numpy_function(begin, [], tf.int64))
        # There is nothing to tune, and the end of a pass may wait until the tuner wakes up.
        options = tf.data.Options()
        options.autotune.enabled = False
        return first.flat_map(batches_of).prefetch(4).with_options(options)

    def signature(self, rows: int) -> "dict[str, tf.TensorSpec]":
        """Return shapes and types of a batch of `rows` rows; an axis that grows is None."""
        lengths = self.lengths if self.fits_batch else self.boundaries
        shortest, ends = np.full(rows, np.argmin(self.lengths)), (lengths.min(), lengths.max())
        short, long = (self.make_batch(shortest, int(length)) for length in ends)
        specs = {"loss_weight": tf.TensorSpec([rows], np.float32)}
        for name, array in short.items():
            sizes = zip(array.shape, long[name].shape, strict=True)
            shape = [size if size == other else None for size, other in sizes]
            specs[name] = tf.TensorSpec(shape, array.dtype)
        return specs

    @contextlib.contextmanager
    def own_errors(self) -> Iterator[None]:
        """Raise the original error of a batch, instead of TensorFlow's report of it."""
        try:
            yield
        except tf.errors.OpError as error:
            raise self.failure or error from None

    def check_keys(self, model: "keras.Model", all_read: bool = True) -> None:
        """Compare the keys, types and shapes of a batch with the inputs of a model.

        Raises:
            InputError: names the missing keys, with `all_read` also those that no input reads, or
                another type, or, without `all_read`, another shape.
        """
        positions, length = self.first_batch(None)
        batch = self.make_batch(np.resize(positions, self.batch_size), length)
        keys, wanted = set(batch), {tensor.name: tensor for tensor in model.inputs}
        for name in sorted(keys & wanted.keys()):
            array, tensor = batch[name], wanted[name]
            if (kind := array.dtype.name) != tensor.dtype:
                raise InputError(
                    f"{name} is {kind} in make_batch, and its keras.Input is {tensor.dtype}: give "
                    "both the same type."
                )
            # In training Keras adds an axis, or an extra changes the batches later.
            sizes = [own or size for own, size in zip(tensor.shape, array.shape, strict=False)]
            fits = len(tensor.shape) == array.ndim and sizes == [*array.shape]
            if not all_read and not fits:
                raise InputError(
                    f"{name} has the shape {array.shape} in make_batch, and its keras.Input "
                    f"{tensor.shape}: give both the same axes."
                )
        missing, unread = sorted(wanted.keys() - keys), sorted(keys - wanted.keys())
        fix = "make make_batch and the names of the inputs agree"
        if not all_read:
            fix = "the inference model can't read what is made from labels, which dev lacks"
        if missing or (unread and all_read):
            raise InputError(
                f"the batches of {type(self).__name__} don't fit the {model.name} model: missing "
                f"keys {missing}, keys that no input reads {unread}; {fix}."
            )


def copy_parts(
    batches: Iterable[dict[str, np.ndarray]], rows: int, own: Sequence[int]
) -> Iterator[dict[str, np.ndarray]]:
    """Yield copies of the parts `own`, of `rows` rows: TensorFlow may overwrite what it gets."""
    for batch in batches:
        for start in (part * rows for part in own):
            yield {name: np.array(array[start : start + rows]) for name, array in batch.items()}
