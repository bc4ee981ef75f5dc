"""Parts of models that predict tokens: attention mask, head and loss."""

from collections.abc import Callable

import keras
from keras import ops

from core.fast.transformer import exact_gelu_function

INITIAL_DEVIATION = 0.02  # of kernels and embeddings, as in BERT


def prefix_mask(segment_ids, padding_mask) -> keras.KerasTensor:
    """Return the attention mask `[batch, query, key]` of a source followed by its target.

    Token i sees token j if cumsum(segment)_j <= cumsum(segment)_i and j is not padding. Segments
    are 0 in the source and 1 in the target, so source tokens have the sum 0, target tokens 1, 2 ...

    Args:
        segment_ids: `[batch, length]`.
        padding_mask: of the same shape.

    Example: two source tokens see each other, two target tokens see all tokens up to themselves.

    >>> mask = prefix_mask(ops.array([[0, 0, 1, 1]]), ops.ones((1, 4)))
    >>> ops.cast(mask, "int32").numpy()[0].tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    """
    sums = ops.cumsum(segment_ids, axis=1)
    return ops.logical_and(
        sums[:, None, :] <= sums[:, :, None], ops.cast(padding_mask, "bool")[:, None, :]
    )


def head_layers(
    width: int, activation: Callable = exact_gelu_function, **kwargs
) -> list[keras.layers.Layer]:
    """Return the layers between the hidden state and the embedding that scores tokens.

    Args:
        width: of the hidden states.
        activation: between the dense layer and the normalization.
        **kwargs: of both layers.

    Example:
    >>> dense, norm = head_layers(8)
    >>> norm(dense(ops.ones((2, 3, 8)))).shape
    TensorShape([2, 3, 8])
    """
    return [
        keras.layers.Dense(
            width,
            activation=activation,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=INITIAL_DEVIATION),
            name="head_dense",
            **kwargs,
        ),
        keras.layers.LayerNormalization(epsilon=1e-12, name="head_norm", **kwargs),
    ]


@keras.saving.register_keras_serializable("common")
class TokenLoss(keras.layers.Layer):
    """Cross-entropy with label smoothing, summed over the target tokens of each example.

    (1 - e) (-log p(label)) + e (mean over the vocabulary of -log p).
    Source: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567.

    Args:
        smoothing: e, the probability that is spread evenly over all tokens.

    Example: all 4 tokens are equally likely, so each label costs log 4 = 1.386; -1 costs nothing.

    >>> loss = TokenLoss(smoothing=0.1)(ops.zeros((2, 3, 4)), ops.array([[0, 1, 2], [3, -1, -1]]))
    >>> [round(float(one), 3) for one in loss]
    [4.159, 1.386]
    """

    def __init__(self, smoothing: float = 0.0, **kwargs) -> None:
        super().__init__(**kwargs)
        self.smoothing = smoothing

    def call(self, logits, labels) -> keras.KerasTensor:
        """Return the losses `[batch]`.

        Args:
            logits: `[batch, target, vocabulary]`.
            labels: `[batch, target]`; below 0 where there is nothing to predict.
        """
        logits = ops.cast(logits, "float32")
        used = ops.cast(labels >= 0, "float32")
        losses = ops.sparse_categorical_crossentropy(
            ops.maximum(labels, 0), logits, from_logits=True
        )
        if self.smoothing:
            uniform = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
            losses = (1 - self.smoothing) * losses + self.smoothing * uniform
        return ops.sum(losses * used, axis=1)

    def compute_output_spec(self, logits, labels) -> keras.KerasTensor:
        return keras.KerasTensor((logits.shape[0],), dtype="float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "smoothing": self.smoothing}
