"""Attention that knows how far tokens are from each other: one class for each way to know it."""

import math

import keras
import numpy as np
import tensorflow as tf

from core.model.transformer import MASKED, SelfAttention


class PositionedAttention(SelfAttention):
    """`SelfAttention` whose parts can be changed: the rest is the same."""

    def project(self, hidden) -> list[tf.Tensor]:
        """Return query, key and value, each `[batch, heads, length, size]`, as one product."""
        projections = (self._query_dense, self._key_dense, self._value_dense)
        width, heads, size = self._query_dense.kernel.shape
        kernel = tf.concat([tf.reshape(part.kernel, (width, -1)) for part in projections], axis=1)
        bias = tf.concat([tf.reshape(part.bias, (-1,)) for part in projections], axis=0)
        batch, length, _ = tf.unstack(tf.shape(hidden))
        projected = tf.nn.bias_add(tf.reshape(hidden, (-1, width)) @ kernel, bias)
        projected = tf.reshape(projected, (batch, length, 3, heads, size))
        return tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))

    def score(self, query, key) -> tf.Tensor:
        """Return how much each token looks at each other, `[batch, heads, length, length]`."""
        return tf.matmul(query, key, transpose_b=True)

    def gather(self, weights, value) -> tf.Tensor:
        """Return what the tokens get, `[batch, heads, length, size]`."""
        return weights @ value

    def call(
        self, query, value=None, attention_mask=None, training=None, **embedding_masks
    ) -> tf.Tensor:
        """Return what each token gathers from the others; arguments as in `SelfAttention`."""
        query, key, value = self.project(query)
        scores = self.score(query * self._inverse_sqrt_key_dim, key)
        if attention_mask is not None:
            scores += (MASKED * (1.0 - tf.cast(attention_mask, scores.dtype)))[:, None]
        weights = self._dropout_layer(tf.nn.softmax(scores), training=training)
        return self._output_dense(tf.transpose(self.gather(weights, value), (0, 2, 1, 3)))


def static_length(tensor) -> int | tf.Tensor:
    """Return the last length but one of `[..., length, size]`: a number where it is known."""
    length = tensor.shape[-2]
    return tf.shape(tensor)[-2] if length is None else length


def distances(length) -> tf.Tensor:
    """Return how far each token `[length, 1]` stands before each other `[1, length]`."""
    places = tf.range(length)
    return places[None, :] - places[:, None]


def by_distance(products: tf.Tensor) -> tf.Tensor:
    """Return products of tokens with distances as products of tokens with tokens.

    Args:
        products: `[..., length, 2 length - 1]`; the last axis are distances from `1 - length` on.

    Returns:
        `[..., length, length]`: for tokens i and j that of i with the distance j - i. Nothing is
        looked up: the rows, each with one number more, stand behind each other as they should.
    """
    shape, length = tf.shape(products), static_length(products)
    padded = tf.pad(products, [[0, 0]] * (len(products.shape) - 1) + [[0, 1]])
    flat = tf.reshape(padded, tf.concat([shape[:-2], [2 * length * length]], 0))
    flat = flat[..., length - 1 : 2 * length * length - 1]
    rows = tf.reshape(flat, tf.concat([shape[:-2], [length, 2 * length - 1]], 0))
    return rows[..., :length]


def rotation(length, size: int, theta: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Return cosine and sine of the angles of each position, `[length, size / 2]`.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.
    """
    rates = theta ** (-np.arange(0, size, 2) / size)
    angles = tf.cast(tf.range(length), "float32")[:, None] * tf.constant(rates, "float32")
    return tf.cos(angles), tf.sin(angles)


@keras.saving.register_keras_serializable("encoders")
class RotaryAttention(PositionedAttention):
    """Queries and keys are turned by their positions, pairs of neighbours in each: RoFormer's."""

    rotary_value = False

    def project(self, hidden) -> list[tf.Tensor]:
        query, key, value = super().project(hidden)
        turned = rotate_neighbours(value) if self.rotary_value else value
        return [rotate_neighbours(query), rotate_neighbours(key), turned]


def rotate_neighbours(vectors: tf.Tensor) -> tf.Tensor:
    """Turn pairs of neighbours in vectors `[..., length, size]` by the position of each."""
    cosine, sine = rotation(static_length(vectors), vectors.shape[-1], 10000.0)
    cosine, sine = tf.cast(cosine, vectors.dtype), tf.cast(sine, vectors.dtype)
    first, second = vectors[..., ::2], vectors[..., 1::2]
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return tf.reshape(tf.stack(turned, axis=-1), tf.shape(vectors))


@keras.saving.register_keras_serializable("encoders")
class RelativeAttention(PositionedAttention):
    """Keys and values have waves of the distance added, NEZHA's: those beyond the reach are equal.

    Source: Wei et al. 2019, https://arxiv.org/abs/1909.00204.
    """

    reach = 64

    def waves(self, length, dtype) -> tf.Tensor:
        """Return the waves of all distances between tokens, `[length, length, size]`."""
        size = self._query_dense.kernel.shape[-1]
        rates = np.exp(np.arange(0, size, 2) * (-math.log(10000.0) / size))
        angles = np.arange(2 * self.reach + 1)[:, None] * rates
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(-1, size)
        rows = tf.clip_by_value(distances(length), -self.reach, self.reach) + self.reach
        return tf.gather(tf.constant(table, dtype), rows)

    def score(self, query, key) -> tf.Tensor:
        waves = self.waves(static_length(query), query.dtype)
        return super().score(query, key) + tf.einsum("bhid,ijd->bhij", query, waves)

    def gather(self, weights, value) -> tf.Tensor:
        waves = self.waves(static_length(weights), weights.dtype)
        return super().gather(weights, value) + tf.einsum("bhij,ijd->bhid", weights, waves)
