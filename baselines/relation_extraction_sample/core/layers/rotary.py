"""Rotary position embeddings."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("common")
class RotaryPositionEmbedding(keras.layers.Layer):
    """Rotate each pair of features by an angle that grows with the position (RoPE).

    The product of two rotated vectors depends only on the distance of their positions:
    RoPE(q, i) . RoPE(k, j) = Re(sum_n q_n conj(k_n) e^{i (i - j) t_n}), t_n = base^(-2n/size).
    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.

    Args:
        base: the slowest rotation has a period of about `2 pi base` positions.

    Example: equal vectors at distance 1 have the same product, wherever they are.

    >>> query, key = RotaryPositionEmbedding()(np.ones((2, 4, 6), "float32"))
    >>> products = np.sum(query[:-1] * key[1:], axis=-1)
    >>> bool(np.allclose(products, products[0]))
    True
    """

    def __init__(self, base: float = 10000.0, **kwargs) -> None:
        super().__init__(**kwargs)
        self.base = base

    def call(self, inputs) -> keras.KerasTensor:
        """Rotate `inputs` of shape `[batch, length, size]`, `size` even."""
        length, size = ops.shape(inputs)[1], inputs.shape[-1]
        positions = ops.cast(ops.arange(length), "float32")[:, None]
        speeds = self.base ** (-2.0 * ops.arange(size // 2, dtype="float32") / size)
        angles = positions * speeds[None, :]
        cosine = ops.cast(ops.repeat(ops.cos(angles), 2, axis=-1), inputs.dtype)
        sine = ops.cast(ops.repeat(ops.sin(angles), 2, axis=-1), inputs.dtype)
        pairs = ops.reshape(inputs, (-1, length, size // 2, 2))
        quarter_turn = ops.stack([-pairs[..., 1], pairs[..., 0]], axis=-1)
        quarter_turn = ops.reshape(quarter_turn, (-1, length, size))
        return inputs * cosine + quarter_turn * sine

    def get_config(self) -> dict:
        return {**super().get_config(), "base": self.base}
