"""Rotary position embeddings."""

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable("common")
class RotaryPositionEmbedding(keras.layers.Layer):
    """Rotate each pair of features by an angle that grows with the position (RoPE).

    The product of two rotated vectors depends only on the distance of their positions:
    RoPE(q, i) . RoPE(k, j) = Re(sum_n q_n conj(k_n) e^{i (i - j) t_n}), t_n = 10000^(-2n/size).
    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.

    Example: equal vectors at distance 1 have the same product, wherever they are.

    >>> query, key = RotaryPositionEmbedding()(np.ones((2, 4, 6), "float32"))
    >>> products = np.sum(query[:-1] * key[1:], axis=-1)
    >>> bool(np.allclose(products, products[0]))
    True
    """

    def call(self, inputs) -> keras.KerasTensor:
        """Rotate `inputs` of shape `[batch, length, size]`, `size` even."""
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
