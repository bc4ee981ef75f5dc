"""Encode a long text in overlapping windows, and join their hidden states.

A window after the first one begins with the first token of the text, such as [CLS]. A window after
which the text goes on ends with the last token of the text, such as [SEP]. So each window is framed
as a text of its own. Of the windows that hold a token, the joined state comes from the one in which
the token is farther from the edges. A text that fits into one window has the states that it has
without windows.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import tensorflow as tf

Tensor: TypeAlias = keras.KerasTensor
MASK = "padding_mask"
FRAME = 2  # tokens of a window that are copies of the first and the last one of the text


@dataclass(frozen=True)
class Windows:
    """How long texts are encoded.

    Attributes:
        length: tokens of a window, those of its frame included.
        overlap: tokens that two neighbouring windows share.
    """

    length: int
    overlap: int

    def split(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the inputs `[batch * windows, window]` of the encoder.

        Args:
            inputs: of texts, `[batch, length]`, among them `padding_mask`.
        """
        return SplitText(self.length, self.overlap, name="split_text")(inputs)

    def join(self, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """Return the hidden states `[batch, length, width]` of texts.

        Args:
            hidden: of windows, `[batch * windows, window, width]`.
            inputs: as in `split`.
        """
        return JoinWindows(self.length, self.overlap, name="join_windows")(hidden, inputs[MASK])


class WindowLayer(keras.layers.Layer):
    """What both layers know of the windows.

    Args:
        window: tokens of a window.
        overlap: tokens that two neighbouring windows share.
    """

    def __init__(self, window: int, overlap: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window, self.overlap = window, overlap
        self.stride = window - FRAME - overlap

    def sizes(self, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the padded length of texts, and number and length of their windows."""
        padded = tf.shape(mask)[1]
        return padded, 1 + self.last_window(padded), tf.minimum(padded, self.window)

    def last_window(self, length: tf.Tensor) -> tf.Tensor:
        """Return the number, from 0 on, of the window in which a text of some tokens ends."""
        return -(-tf.maximum(length - self.window, 0) // self.stride)

    def get_config(self) -> dict:
        return {**super().get_config(), "window": self.window, "overlap": self.overlap}


@keras.saving.register_keras_serializable("long_documents")
class SplitText(WindowLayer):
    """Texts to windows, which stand one after the other.

    Example: seven tokens in windows of six, of which two are shared.

    >>> tokens = tf.range(1, 8)[None]
    >>> inputs = {"token_ids": tokens, "padding_mask": tf.ones_like(tokens)}
    >>> SplitText(6, 2)(inputs)["token_ids"].numpy().tolist()
    [[1, 2, 3, 4, 5, 7], [1, 4, 5, 6, 7, 7]]
    """

    def call(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Split inputs `[batch, length]` of integers."""
        mask = inputs[MASK]
        padded, count, length = self.sizes(mask)
        ends = tf.reduce_sum(mask, axis=1)[:, None, None]
        first, column = (tf.range(count) * self.stride)[:, None], tf.range(length)[None]
        places = tf.where(column == 0, 0, first + column)[None]
        goes_on = (column == self.window - 1) & (first + self.window < ends)
        places = tf.where(goes_on, ends - 1, places)
        real = tf.cast(places < ends, mask.dtype)
        rows = tf.reshape(tf.minimum(places, padded - 1), (tf.shape(mask)[0], -1))

        def split(values: tf.Tensor) -> tf.Tensor:
            return tf.reshape(tf.gather(values, rows, batch_dims=1), (-1, length))

        found = {name: split(values) for name, values in inputs.items()}
        return {**found, MASK: found[MASK] * tf.reshape(real, (-1, length))}

    def compute_output_spec(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: keras.KerasTensor((None, None), dtype=t.dtype) for n, t in inputs.items()}


@keras.saving.register_keras_serializable("long_documents")
class JoinWindows(WindowLayer):
    """Hidden states of windows to those of texts.

    Example: the tokens of `SplitText`'s example, as if they were states.

    >>> windows = tf.constant([[1.0, 2, 3, 4, 5, 7], [1, 4, 5, 6, 7, 7]])[..., None]
    >>> JoinWindows(6, 2)(windows, tf.ones((1, 7), "int32"))[0, :, 0].numpy().tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """

    def call(self, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Join hidden `[batch * windows, window, width]`; mask `[batch, length]` is of texts."""
        padded, count, length = self.sizes(mask)
        last = self.last_window(tf.reduce_sum(mask, axis=1)[:, None])
        place = tf.range(padded)[None]
        # Half of the overlap belongs to each of two windows; the last one has the rest of a text.
        nearest = tf.clip_by_value((place - 1 - self.overlap // 2) // self.stride, 0, count - 1)
        window = tf.minimum(nearest, last)
        column = tf.minimum(place - window * self.stride, length - 1)
        states = tf.reshape(hidden, (tf.shape(mask)[0], count * length, hidden.shape[-1]))
        return tf.gather(states, window * length + column, batch_dims=1)

    def compute_output_spec(self, hidden: Tensor, mask: Tensor) -> Tensor:
        return keras.KerasTensor((*mask.shape, hidden.shape[-1]), dtype=hidden.dtype)
