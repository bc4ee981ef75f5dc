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
from collections.abc import Iterator, Mapping, Sequence
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
        self.first_row, self.count_of_step = tf.cast(rows[0], tf.int64), tf.cast(step, tf.int64)
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
        key = self.key(layer)
        # Plain integers where the shape is known: nothing to compute in the graph.
        rows = self.rows.shape[0] or tf.size(self.rows, tf.int64)
        places = (inputs.shape.num_elements() or tf.size(inputs, tf.int64)) // rows
        counts = -(-places // PLACES_A_COUNT)
        first = self.first_row * counts
        bits = tf.reshape(self.draw(key, first, rows, counts), (rows, PLACES_A_COUNT * counts))
        if (inputs.shape[-1] or 1) % PLACES_A_COUNT:  # the last count may have more than is left
            bits = bits[:, :places]
        bits = tf.reshape(bits, tf.shape(inputs))
        bits.set_shape(inputs.shape)
        return bits

    def key(self, layer: "Dropout") -> tf.Tensor:
        """Return the key of the next mask of a layer, an integer of 64 bits."""
        origin = (layer.stream, self.calls[layer], self.number)
        self.calls[layer] += 1
        key = hashlib.blake2b(repr(origin).encode(), digest_size=8).digest()
        return tf.constant(int.from_bytes(key, "little"), tf.uint64)

    def draw(
        self, key: tf.Tensor, first: tf.Tensor, rows: tf.Tensor | int, counts: tf.Tensor | int
    ) -> tf.Tensor:
        """Return the bits of `rows * counts` counts from the first one on, 16 in a number."""
        drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=tf.stack([rows, 4 * counts]),
            key=key[None],
            counter=tf.bitcast(tf.stack([first, self.count_of_step]), tf.uint64),
            alg=PHILOX,
            dtype=tf.uint32,
        )
        return tf.bitcast(drawn, tf.uint16)

    def arguments(self, layers: Sequence["Dropout"]) -> tuple[tf.Tensor, ...]:
        """Return what `MasksOfProgram` draws the next masks of some layers from, as tensors."""
        keys = [self.key(layer) for layer in layers for _ in range(most_calls(layer))]
        return (self.step, self.rows, tf.stack(keys) if keys else tf.zeros(0, tf.uint64))


class MasksOfProgram(Masks):
    """The masks of a layer whose program is shared: the keys of its dropout are arguments.

    XLA's own Philox gives other numbers than TensorFlow's, so the numbers are computed here.

    Args:
        layers: the dropout of the layer.
        arguments: from `Masks.arguments`, for as many layers.
    """

    def __init__(self, layers: Sequence["Dropout"], arguments: tuple[tf.Tensor, ...]) -> None:
        step, rows, keys = arguments
        super().__init__(step, rows)
        numbers = [most_calls(layer) for layer in layers]
        each = tf.split(keys, numbers) if layers else []
        own = (tf.unstack(part, number) for part, number in zip(each, numbers, strict=True))
        self.keys = dict(zip(layers, own, strict=True))

    def key(self, layer: "Dropout") -> tf.Tensor:
        return self.keys[layer].pop(0)

    def draw(
        self, key: tf.Tensor, first: tf.Tensor, rows: tf.Tensor | int, counts: tf.Tensor | int
    ) -> tf.Tensor:
        numbers = tf.cast(first + tf.range(tf.cast(rows * counts, tf.int64)), tf.uint64)
        step = tf.cast(self.step, tf.uint64)
        four = philox((*halves(numbers), *halves(tf.fill(tf.shape(numbers), step))), halves(key))
        upper = tf.constant(16, tf.uint32)
        halved = ((one & 0xFFFF, tf.bitwise.right_shift(one, upper)) for one in four)
        parts = [half for pair in halved for half in pair]
        return tf.cast(tf.stack(parts, axis=-1), tf.uint16)


def most_calls(layer: "Dropout") -> int:
    """Return how often a layer is called at most in one pass through a model."""
    return max(1, len(layer._inbound_nodes))


def philox(counter: tuple[tf.Tensor, ...], key: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    """Return the four numbers of each count, by ten rounds of Philox 4x32.

    Args:
        counter: four numbers of 32 bits for each count, the lowest first.
        key: two numbers of 32 bits.

    Example: as its authors have published it for counts and keys of 0.

    >>> zero = tf.zeros((), tf.uint32)
    >>> [hex(int(one)) for one in philox((zero,) * 4, (zero,) * 2)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    a, b, c, d = counter
    for number in range(10):
        low_a, high_a = halves(tf.cast(a, tf.uint64) * 0xD2511F53)
        low_c, high_c = halves(tf.cast(c, tf.uint64) * 0xCD9E8D57)
        # The key grows by the golden ratio and by the root of 3 minus 1, as 32-bit fractions.
        keys = (key[0] + number * 0x9E3779B9 % 2**32, key[1] + number * 0xBB67AE85 % 2**32)
        a, b, c, d = high_c ^ b ^ keys[0], low_c, high_a ^ d ^ keys[1], low_a
    return a, b, c, d


def halves(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lower and the upper 32 bits of numbers of 64 bits."""
    upper = tf.bitwise.right_shift(number, tf.constant(32, tf.uint64))
    return tf.cast(number & 0xFFFFFFFF, tf.uint32), tf.cast(upper, tf.uint32)


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


def with_row_numbers(batch: dict) -> dict:
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
