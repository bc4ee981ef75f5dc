"""Train only the embeddings of tokens in the training data; the others only decay.

Tokens absent from the training data get no gradient. The moments of their rows stay 0, and each
step multiplies all these rows by the same 1 - rate * decay. So one factor represents them. It is a
weight without gradient, and the optimizer updates it like the others. Rate, decay, averages and
devices therefore affect it exactly like the rows.
"""

import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.replace_class import replace_class
from core.batches import Batch, DataGenerator
from core.exact.dropout import named_layers
from core.step import Models

OFF = "set used_rows.enabled = false"
WHOLE_TABLE = (
    "used_rows.enabled = true, but this model does not read single rows of a token_embedding that "
    f"only its encoder has; some score tokens by the whole table: {OFF}."
)


def train_used_rows(models: Models, train_batches: DataGenerator) -> None:
    """Train only the encoder's rows of tokens in the batches.

    Call this in the strategy's scope, before making the optimizer.

    Raises:
        InputError: something reads the whole table.
    """
    table = find_table(models)
    used = find_used(train_batches, table.input_dim)
    print(f"used_rows: {used.sum()} of {len(used)} rows of the token embedding are trained")
    if not used.all():
        split_table(table, used)
        refuse_other_tokens(train_batches, used)


def find_table(models: Models) -> keras.layers.ReversibleEmbedding:
    """Return the token embedding of an encoder, which a model calls as a whole.

    Raises:
        InputError: there is none, or another layer shares it.
    """
    encoder = models.encoder
    table: Any = getattr(encoder, "token_embedding", None)
    plain = isinstance(table, keras.layers.ReversibleEmbedding) and not table.mask_zero
    places = [path for path, layer in named_layers(models.training) if layer is table]
    within = all(path.startswith(f"{encoder.name}/") for path in places)
    if not plain or len(table.weights) != 1 or not places or not within:
        raise InputError(WHOLE_TABLE)
    return table


def find_used(train_batches: DataGenerator, tokens: int) -> np.ndarray:
    """Return a mask of the tokens in the training data `[tokens]`; an epoch has all examples."""
    used = np.zeros(tokens, bool)
    for batch in train_batches.batches(0):
        used[batch["token_ids"]] = True
    return used


def refuse_other_tokens(train_batches: DataGenerator, used: np.ndarray) -> None:
    """Refuse batches with tokens outside of the first epoch, whose rows are not trained."""
    make_batch = train_batches.make_batch

    def make_known_batch(positions: np.ndarray, length: int) -> Batch:
        batch = make_batch(positions, length)
        if not used[batch["token_ids"]].all():
            raise InputError(
                f"used_rows.enabled = true, but {type(train_batches).__name__} draws tokens that "
                f"the first epoch does not have: {OFF}."
            )
        return batch

    train_batches.make_batch = make_known_batch  # type: ignore[method-assign]


def split_table(table: keras.layers.ReversibleEmbedding, used: np.ndarray) -> None:
    """Make a built token embedding one of `UsedRows`, of the tokens where `used` is true."""
    # Of the same name: files of weights name a layer by its class.
    replace_class(table, type(type(table).__name__, (UsedRows,), {}))
    table.keep_rows(used)


class UsedRows(keras.layers.ReversibleEmbedding):
    """A token embedding that trains some rows; its weight files have all rows.

    Attributes:
        used: mask of the tokens with a trained row `[tokens]`.
        factor: product of all decays of the other rows so far `[1, 1]`.
        others: the initial other rows. They don't change, so checkpoints don't store them; `origin`
            identifies them.
    """

    _embeddings: keras.Variable
    used: np.ndarray
    factor: keras.Variable
    others: tf.Variable
    origin: keras.Variable

    def keep_rows(self, used: np.ndarray) -> None:
        """Train only the rows in `used`."""
        # Free memory at once, because a large table needs most memory here.
        table = np.asarray(self._embeddings)
        trained, others = table[used], table[~used]
        self._call_has_context_arg = {"training": True}  # missing in the original layer
        self._tracker.unlock()
        del self._embeddings, table
        self.others = tf.Variable(others, trainable=False)
        self._embeddings = self.add_weight(
            shape=trained.shape, initializer="zeros", name="embeddings"
        )
        self._embeddings.assign(trained)
        # Its name decides about decay, its path about the learning rate; both contain the name of
        # the table.
        self.factor = self.add_weight(shape=(1, 1), initializer="ones", name="other_embeddings")
        self.origin = self.add_weight(shape=(1,), name="origin", trainable=False)
        self.origin.assign([fingerprint(others)])
        self._tracker.lock()
        self.used = used
        # The trained rows come first. 64-bit integers, because 32-bit ones can't be on a GPU.
        places = np.empty(len(used), np.int64)
        places[np.concatenate([np.flatnonzero(used), np.flatnonzero(~used)])] = np.arange(len(used))
        self.places = tf.Variable(places, trainable=False)

    def call(self, inputs: tf.Tensor, reverse: bool = False, training: bool | None = None) -> Any:
        """Return the rows `[batch, length, width]` of token ids `[batch, length]`."""
        if reverse:
            raise InputError(WHOLE_TABLE)
        places = tf.gather(self.places, inputs)
        if training:  # only tokens of the training data
            return super().call(places)
        trained = self.embeddings.shape[0]
        rows = super().call(tf.minimum(places, trained - 1))
        others = tf.gather(self.others, tf.maximum(places - trained, 0)) * self.factor.value
        return tf.where((places < trained)[..., None], rows, tf.cast(others, rows.dtype))

    def whole_table(self) -> np.ndarray:
        """Return the rows of all tokens `[tokens, width]`.

        Raises:
            InputError: the run began with other rows of the encoder.
        """
        others = np.asarray(self.others)
        if float(self.origin[0]) != fingerprint(others):
            raise InputError(
                "the encoder is not the one that this run was begun with: restore its files, or "
                "start again with --overwrite true."
            )
        table = np.empty((len(self.used), others.shape[1]), others.dtype)
        table[self.used] = np.asarray(self.embeddings)
        table[~self.used] = others * np.asarray(self.factor)
        return table

    def save_own_variables(self, store: Any) -> None:
        """Write like a table of all rows."""
        store["0"] = self.whole_table()

    def load_own_variables(self, store: Any) -> None:
        """Read a table of all rows that was trained from the same `others`."""
        table, others = np.asarray(store["0"]), np.asarray(self.others, np.float64)
        self.embeddings.assign(table[self.used])
        # All quotients are the factor, up to rounding.
        factor = np.sum(table[~self.used] * others) / max(np.sum(others**2), 1e-30)
        self.factor.assign([[factor]])


def fingerprint(rows: np.ndarray) -> float:
    """Return a hash of rows below 2^24, exact in float32."""
    return float(zlib.crc32(np.ascontiguousarray(rows).data) % 2**24)
