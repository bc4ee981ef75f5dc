"""A pooling that learns which tokens count."""

from typing import Any, TypeAlias

import keras
from keras import ops

Tensor: TypeAlias = keras.KerasTensor
MASKED = -1e9


@keras.saving.register_keras_serializable("competition")
class AttentionPooling(keras.layers.Layer):
    """Mean of the hidden states, each weighted by a softmax of its score over the tokens of a text.

    The score of a token is v . tanh(W h + b). Source: Yang et al. 2016,
    https://aclanthology.org/N16-1174.

    Example:
        >>> import numpy as np
        >>> hidden, mask = np.ones((2, 3, 4), "float32"), np.array([[1, 1, 0], [1, 0, 0]])
        >>> AttentionPooling()(hidden, mask).shape
        TensorShape([2, 4])
    """

    def build(self, hidden_shape: tuple, mask_shape: tuple | None = None) -> None:
        width = hidden_shape[-1]
        self.kernel = self.add_weight((width, width), "glorot_uniform", name="kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")
        # Zeros at the start: the pooling begins as a mean.
        self.query = self.add_weight((width,), "zeros", name="query")

    def call(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Pool `hidden` `[batch, length, width]` where `mask` `[batch, length]` is 1."""
        keys = ops.tanh(ops.matmul(hidden, self.kernel) + self.bias)
        scores = ops.cast(ops.einsum("blw,w->bl", keys, self.query), "float32")
        shares = ops.softmax(ops.where(ops.equal(mask, 1), scores, MASKED), axis=-1)
        return ops.einsum("bl,blw->bw", ops.cast(shares, hidden.dtype), hidden)

    def compute_output_shape(self, hidden_shape: tuple, mask_shape: Any = None) -> tuple:
        return (hidden_shape[0], hidden_shape[-1])
