"""GlobalPointer and EfficientGlobalPointer: layers that give a score to each pair of tokens.

For tokens (i, j), once per head: "is this span an entity?", "does a subject that starts at i have
an object that starts at j?".
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

# What the scores of all pairs are computed from. GlobalPointer has queries and keys
# `[batch, heads, length, size]`. EfficientGlobalPointer has one query and key for all
# heads, and what each head adds for the start and the end of a pair `[batch, heads, length]`.
Parts = tuple[tf.Tensor, ...]


class Pointer(keras.layers.Layer):
    """The common part of both pointers: RoPE. A pointer returns the parts of the scores.

    Args:
        heads: number of scores for each pair of tokens.
        head_size: size of the query and key vectors, even.
        rotary: rotate queries and keys, so that scores depend on the distance.
    """

    def __init__(self, heads: int, head_size: int = 64, rotary: bool = True, **kwargs) -> None:
        super().__init__(**kwargs)
        if head_size % 2:
            raise ValueError(f"head_size must be even, got {head_size}.")
        self.heads, self.head_size, self.rotary = heads, head_size, rotary

    def dense(self, units: int, name: str, inputs_shape: tuple) -> keras.layers.Dense:
        """Return a dense layer that is part of this one, built for the shape of its inputs."""
        options = {"dtype": self.dtype_policy, "name": name}
        layer = keras.layers.Dense(units, kernel_initializer="lecun_normal", **options)
        layer.build(inputs_shape)
        return layer

    def get_config(self) -> dict:
        own = {"heads": self.heads, "head_size": self.head_size, "rotary": self.rotary}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("common")
class GlobalPointer(Pointer):
    """Score every pair of tokens; each head has its own queries and keys.

    s_h(i, j) = RoPE(q_h,i) . RoPE(k_h,j) / sqrt(head_size).
    Source: Su et al. 2022, https://arxiv.org/abs/2208.03054.

    Example:
    >>> [tuple(part.shape) for part in GlobalPointer(heads=3)(np.ones((2, 5, 4)))]
    [(2, 3, 5, 64), (2, 3, 5, 64)]
    """

    def build(self, inputs_shape) -> None:
        self.projection = self.dense(2 * self.heads * self.head_size, "projection", inputs_shape)

    def call(self, inputs) -> Parts:
        """Return queries and keys of `inputs` `[batch, length, width]`."""
        length, size = ops.shape(inputs)[1], self.head_size
        projected = ops.reshape(self.projection(inputs), (-1, length, 2 * self.heads, size))
        # The rotation takes three axes: [batch * 2 * heads, length, size].
        projected = ops.reshape(ops.transpose(projected, (0, 2, 1, 3)), (-1, length, size))
        if self.rotary:
            projected = rotate(projected)
        projected = ops.reshape(projected, (-1, 2, self.heads, length, size))
        return tuple(ops.unstack(projected, axis=1))


@keras.saving.register_keras_serializable("common")
class EfficientGlobalPointer(Pointer):
    """Score every pair of tokens; the heads share queries and keys and add two scores each.

    s_h(i, j) = RoPE(q_i) . RoPE(k_j) / sqrt(head_size) + a_h(i) + b_h(j): "where are spans?" is
    computed once, and "of which type?" takes 2 features a head instead of 2 head_size.
    Source: Su 2022, https://kexue.fm/archives/8877.

    Example:
    >>> [tuple(part.shape) for part in EfficientGlobalPointer(heads=3)(np.ones((2, 5, 4)))]
    [(2, 1, 5, 64), (2, 1, 5, 64), (2, 3, 5), (2, 3, 5)]
    """

    def build(self, inputs_shape) -> None:
        self.projection = self.dense(2 * self.head_size, "projection", inputs_shape)
        self.types = self.dense(2 * self.heads, "types", (*inputs_shape[:-1], 2 * self.head_size))

    def call(self, inputs) -> Parts:
        """Return queries, keys, and the scores of starts and ends, of `inputs`."""
        projected = self.projection(inputs)
        queries, keys = ops.split(projected, 2, axis=-1)
        if self.rotary:
            queries, keys = rotate(queries), rotate(keys)
        starts, ends = ops.split(ops.transpose(self.types(projected), (0, 2, 1)), 2, axis=1)
        return ops.expand_dims(queries, 1), ops.expand_dims(keys, 1), starts, ends


POINTERS = {"efficient": EfficientGlobalPointer, "plain": GlobalPointer}  # as settings name them


def rotate(inputs) -> keras.KerasTensor:
    """Rotate the pairs of features `[batch, length, size]` by angles that grow with the position.

    The product of two rotated vectors depends only on the distance of their positions:
    RoPE(q, i) . RoPE(k, j) = Re(sum_n q_n conj(k_n) e^{i (i - j) t_n}), t_n = 10000^(-2n/size).
    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.

    Example: equal vectors at distance 1 have the same product, wherever they are.

    >>> query, key = rotate(np.ones((2, 4, 6), "float32"))
    >>> products = np.sum(query[:-1] * key[1:], axis=-1)
    >>> bool(np.allclose(products, products[0]))
    True
    """
    length, size = ops.shape(inputs)[1], inputs.shape[-1]
    positions = ops.cast(ops.arange(length), "float32")[:, None]
    speeds = 10000.0 ** (-2.0 * np.arange(size // 2) / size)
    angles = positions * speeds.astype("float32")
    angles = ops.reshape(ops.stack([angles, angles], axis=-1), (length, size))
    cosine = ops.cast(ops.cos(angles), inputs.dtype)
    sine = ops.cast(ops.sin(angles), inputs.dtype)
    first, second = ops.unstack(ops.reshape(inputs, (-1, length, size // 2, 2)), axis=-1)
    quarter_turn = ops.reshape(ops.stack([-second, first], axis=-1), (-1, length, size))
    return inputs * cosine + quarter_turn * sine


def pair_scores(queries, keys, starts=None, ends=None) -> keras.KerasTensor:
    """Return the scores `[..., queries, keys]` of all pairs, from `Parts`."""
    scores = ops.matmul(queries * queries.shape[-1] ** -0.5, ops.swapaxes(keys, -1, -2))
    if starts is not None:
        # Starts + ends first: oneDNN is slow to add both in turn to the scores.
        scores = scores + (ops.expand_dims(starts, -1) + ops.expand_dims(ends, -2))
    # Float32, because exponentials are summed over length^2 pairs.
    return ops.cast(scores, "float32")
