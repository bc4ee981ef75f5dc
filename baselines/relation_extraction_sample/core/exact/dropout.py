"""Dropout masks that are the same on any number of replicas, micro-batches and workers.

Keras draws masks from a state that each replica has a copy of. So in every step all replicas drop
the same elements, and micro-batches drop other elements than the whole batch. Here the random bits
of an example are computed from a counter: Philox with a key of (seed, layer, call, pass) and a
counter that starts at (row in the global batch, step).
Source: Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405.
"""

import collections
import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

import keras
import tensorflow as tf

from core.base.replace_class import replace_class

PHILOX = 1  # the algorithm that TensorFlow guarantees on every device
PLACES_A_COUNT = 8  # one count of Philox gives 128 bits, and each element takes 16


class Masks:
    """The source of the dropout masks in one pass through a model.

    Args:
        step: updates before this one; an integer.
        rows: row of each example in the batch over all replicas `[batch]`, consecutive.
        number: of the pass: another number draws other masks.

    Example: the second half of a batch drops what it drops within the whole.

    >>> layer = Dropout(0.5)
    >>> layer.stream = "1/0"  # as `place_dropout` sets it
    >>> with Masks(tf.constant(0), tf.range(4)).drawn():
    ...     whole = layer(tf.ones((4, 9)), training=True)
    >>> with Masks(tf.constant(0), tf.range(2, 4)).drawn():
    ...     half = layer(tf.ones((2, 9)), training=True)
    >>> bool(tf.reduce_all(half == whole[2:]))
    True
    """

    def __init__(self, step: tf.Tensor, rows: tf.Tensor, number: int = 0) -> None:
        self.step, self.rows, self.number = step, rows, number
        self.calls: collections.Counter[Dropout] = collections.Counter()

    @contextlib.contextmanager
    def drawn(self, calls: Mapping["Dropout", int] | None = None) -> Iterator[None]:
        """Let the layers that are called in this context draw their masks from here.

        Args:
            calls: how often each layer was called before, to draw the following masks again.
        """
        if calls is not None:
            self.calls = collections.Counter(calls)
        before = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(before)

    def bits(self, layer: "Dropout", inputs: tf.Tensor) -> tf.Tensor:
        """Return 16 random bits for each element of inputs `[batch * n, ...]`."""
        origin = (layer.stream, self.calls[layer], self.number)
        self.calls[layer] += 1
        key = hashlib.blake2b(repr(origin).encode(), digest_size=8).digest()
        rows = tf.shape(self.rows)[0]
        places = tf.size(inputs) // rows
        counts = -(-places // PLACES_A_COUNT)
        first = tf.cast(self.rows[0], tf.int64) * tf.cast(counts, tf.int64)
        drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=tf.stack([rows, 4 * counts]),
            key=tf.constant([int.from_bytes(key, "little")], tf.uint64),
            counter=tf.cast(tf.stack([first, tf.cast(self.step, tf.int64)]), tf.uint64),
            alg=PHILOX,
            dtype=tf.uint32,
        )
        bits = tf.reshape(tf.bitcast(drawn, tf.uint16), (rows, PLACES_A_COUNT * counts))
        return tf.ensure_shape(tf.reshape(bits[:, :places], tf.shape(inputs)), inputs.shape)


CURRENT: ContextVar[Masks | None] = ContextVar("masks", default=None)


@keras.saving.register_keras_serializable("common")
class Dropout(keras.layers.Dropout):
    """Keras's dropout with masks from the current `Masks`; without one it draws as Keras does.

    Example:

    >>> Dropout(0.5)(tf.ones((1, 2)), training=False).numpy().tolist()
    [[1.0, 1.0]]
    """

    stream = ""  # name of its random numbers; set by `place_dropout`

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        masks = CURRENT.get()
        if not training or not self.rate or masks is None or not self.stream:
            return super().call(inputs, training=training)
        dropped = round(self.rate * 2**16)
        kept = masks.bits(self, inputs) >= tf.constant(dropped, tf.uint16)
        scale = 2**16 / (2**16 - dropped)

        # For the gradient only the mask is kept, one byte for each element.
        @tf.custom_gradient
        def drop(values: tf.Tensor) -> tuple:
            def select(values: tf.Tensor) -> tf.Tensor:
                return tf.where(kept, values * scale, tf.zeros((), values.dtype))

            return select(values), select

        return drop(inputs)


def number_rows(batch: dict) -> dict:
    """Return the batch of a replica with `row` `[batch]`: the places of its rows in the whole."""
    rows = tf.shape(batch["loss_weight"])[0]
    context = tf.distribute.get_replica_context()
    return {**batch, "row": context.replica_id_in_sync_group * rows + tf.range(rows)}


def dropout_masks(
    model: keras.Model, batch: dict, number: int = 0
) -> contextlib.AbstractContextManager[None]:
    """Let dropout draw the masks of this step for the rows of a batch.

    Args:
        model: its optimizer counts the steps.
        batch: with `row`; without it (no training, only a gradient) dropout draws as usual.
        number: of the pass through the model: another number draws other masks.
    """
    if "row" not in batch:
        return contextlib.nullcontext()
    return Masks(model.optimizer.iterations.value, batch["row"], number).drawn()


class ReplicaSeeds(keras.random.SeedGenerator):
    """Per-replica seeds for random layers other than `Dropout`; Keras has one seed for all."""

    def next(self, ordered: bool = True) -> tf.Tensor:
        seed, replica = super().next(ordered), tf.distribute.get_replica_context()
        number = replica.replica_id_in_sync_group if replica else 0
        return seed + tf.cast(tf.stack([number, 0]), seed.dtype)


def place_dropout(model: keras.Model, seed: int) -> None:
    """Seed all dropout of a model per example, and other random layers per replica."""
    layers = dict.fromkeys(layer for _, layer in named_layers(model))
    for number, layer in enumerate(filter(can_be_placed, layers)):
        replace_class(layer, Dropout)
        layer.stream = f"{seed}/{number}"
    for seeds in (value for layer in layers for value in vars(layer).values()):
        if isinstance(seeds, keras.random.SeedGenerator):
            replace_class(seeds, ReplicaSeeds)


def named_layers(model: keras.Model, prefix: str = "") -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yield `(path, layer)` for the layers of a model and for all layers inside them."""
    for layer in model._flatten_layers(include_self=False, recursive=False):
        yield prefix + layer.name, layer
        yield from named_layers(layer, f"{prefix}{layer.name}/")


def can_be_placed(layer: keras.layers.Layer) -> bool:
    """Return True for plain `Dropout` without `noise_shape`."""
    return type(layer) in (keras.layers.Dropout, Dropout) and layer.noise_shape is None
