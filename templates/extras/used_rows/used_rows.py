"""Train the embeddings of the tokens that the training data has; those of others only decay.

A token that no training text has never gives its row a gradient: the moments of the row stay 0,
and each step multiplies it by 1 - rate * decay, which is the same for all such rows. So one factor
stands for all of them. It is a weight without gradient that the optimizer sees beside the others:
whatever the rate, the decay, the averages or the devices are, it goes the way of these rows.
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
    f"its encoder alone has; some score tokens by the whole table: {OFF}."
)


def train_used_rows(models: Models, train_batches: DataGenerator) -> None:
    """Let the encoder train the rows of the tokens in the batches alone.

    Call this under the scope of the strategy, before the optimizer is made.

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
    """Return the token embedding of an encoder that a model calls as a whole.

    Raises:
        InputError: there is none, or another layer has it too.
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
    """Return which tokens the training data has `[tokens]`: each epoch has all its examples."""
    used = np.zeros(tokens, bool)
    for batch in train_batches.batches(0):
        used[batch["token_ids"]] = True
    return used


def refuse_other_tokens(train_batches: DataGenerator, used: np.ndarray) -> None:
    """Let no batch have another token than the first epoch has: its row would not be trained."""
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
    """A token embedding that trains some rows; files of its weights have all.

    Attributes:
        used: which tokens have a row that is trained `[tokens]`.
        factor: what the others have been multiplied by since the training began `[1, 1]`.
        others: their rows as the training began. They change no more, so that no checkpoint needs
            them: `origin` is what they are known by.
    """

    _embeddings: keras.Variable
    used: np.ndarray
    factor: keras.Variable
    others: tf.Variable
    origin: keras.Variable

    def keep_rows(self, used: np.ndarray) -> None:
        """Train no more rows of the table than `used` says."""
        # What is not needed goes at once: this is where a large table takes most memory.
        table = np.asarray(self._embeddings)
        trained, others = table[used], table[~used]
        self._call_has_context_arg = {"training": True}  # the layer that this one was had no such
        self._tracker.unlock()
        del self._embeddings, table
        self.others = tf.Variable(others, trainable=False)
        self._embeddings = self.add_weight(
            shape=trained.shape, initializer="zeros", name="embeddings"
        )
        self._embeddings.assign(trained)
        # Whether it decays is told by its name, and how fast it learns by its path: both hold the
        # name of the table.
        self.factor = self.add_weight(shape=(1, 1), initializer="ones", name="other_embeddings")
        self.origin = self.add_weight(shape=(1,), name="origin", trainable=False)
        self.origin.assign([fingerprint(others)])
        self._tracker.lock()
        self.used = used
        # The trained rows come first. Integers of 64 bits, for those of 32 can't be on a GPU.
        places = np.empty(len(used), np.int64)
        places[np.concatenate([np.flatnonzero(used), np.flatnonzero(~used)])] = np.arange(len(used))
        self.places = tf.Variable(places, trainable=False)

    def call(self, inputs: tf.Tensor, reverse: bool = False, training: bool | None = None) -> Any:
        """Return the rows `[batch, length, width]` of token ids `[batch, length]`."""
        if reverse:
            raise InputError(WHOLE_TABLE)
        places = tf.gather(self.places, inputs)
        if training:  # no token but those of the training data
            return super().call(places)
        trained = self.embeddings.shape[0]
        rows = super().call(tf.minimum(places, trained - 1))
        others = tf.gather(self.others, tf.maximum(places - trained, 0)) * self.factor.value
        return tf.where((places < trained)[..., None], rows, tf.cast(others, rows.dtype))

    def whole_table(self) -> np.ndarray:
        """Return the rows of all tokens `[tokens, width]`.

        Raises:
            InputError: the run was begun with an encoder that has other rows.
        """
        others = np.asarray(self.others)
        if float(self.origin[0]) != fingerprint(others):
            raise InputError(
                "the encoder is not the one that this run was begun with: restore its files, or "
                "begin anew with --overwrite true."
            )
        table = np.empty((len(self.used), others.shape[1]), others.dtype)
        table[self.used] = np.asarray(self.embeddings)
        table[~self.used] = others * np.asarray(self.factor)
        return table

    def save_own_variables(self, store: Any) -> None:
        """Write what a table of all rows would."""
        store["0"] = self.whole_table()

    def load_own_variables(self, store: Any) -> None:
        """Read a table of all rows, which was trained from the same `others`."""
        table, others = np.asarray(store["0"]), np.asarray(self.others, np.float64)
        self.embeddings.assign(table[self.used])
        # All quotients are the factor, but for what rounding has made of each.
        factor = np.sum(table[~self.used] * others) / max(np.sum(others**2), 1e-30)
        self.factor.assign([[factor]])


def fingerprint(rows: np.ndarray) -> float:
    """Return a number below 2^24, which float32 has exactly, that tells rows from others."""
    return float(zlib.crc32(np.ascontiguousarray(rows).data) % 2**24)
