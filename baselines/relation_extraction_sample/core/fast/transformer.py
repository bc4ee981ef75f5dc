"""KerasHub's Transformer layer with fewer passes over memory: same weights, same results.

On a CPU, matrix products take two thirds of a training step. Each other operation reads and writes
all hidden states, and automatic gradients do so many times. Here query, key and value are one
product, the mask is added, and GELU and the normalization have gradients of their own.
"""

import functools
import math
from collections.abc import Callable

import keras
import keras_hub
import tensorflow as tf
from keras.src.backend import AutocastScope  # Keras exports no way to read a weight uncast

from core.base.replace_class import replace_class
from core.fast.layer_programs import compiled_alone
from core.fast.one_pass import activate

MASKED = -1e9  # far below any score, yet finite in bfloat16: exp(MASKED) is exactly 0


def hide(scores: tf.Tensor, visible: tf.Tensor) -> tf.Tensor:
    """Return scores that softmax ignores where `visible`, of a shape to broadcast, is 0."""
    least = MASKED if scores.dtype != tf.float16 else -3e4  # float16 ends at 65,504
    zero, least = tf.zeros((), scores.dtype), tf.constant(least, scores.dtype)
    return scores + tf.where(tf.cast(visible, "bool"), zero, least)


@keras.saving.register_keras_serializable("common")
class TransformerLayer(keras_hub.layers.TransformerEncoder):
    """KerasHub's Transformer layer, computed with the parts below.

    Example:

    >>> layer = TransformerLayer(intermediate_dim=8, num_heads=2)
    >>> hidden = layer(np.ones((1, 3, 4)), padding_mask=np.array([[1, 1, 0]]))
    >>> tuple(hidden.shape)
    (1, 3, 4)
    """

    def build(self, inputs_shape) -> None:
        super().build(inputs_shape)
        fuse_layer(self, type(self))

    call = compiled_alone(keras_hub.layers.TransformerEncoder.call)


def fuse_layer(layer: keras_hub.layers.TransformerEncoder, kind: type = TransformerLayer) -> None:
    """Let a built layer of KerasHub compute with the parts below; its weights stay."""
    replace_class(layer, kind)
    replace_class(layer._self_attention_layer, SelfAttention)
    for normalization in (layer._self_attention_layer_norm, layer._feedforward_layer_norm):
        replace_class(normalization, LayerNormalization)


@keras.saving.register_keras_serializable("common")
class SelfAttention(keras.layers.MultiHeadAttention):
    """Multi-head attention of a sequence to itself.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762.

    Example:

    >>> attention = SelfAttention(num_heads=2, key_dim=3)
    >>> attention.build(query_shape=(2, 5, 6), value_shape=(2, 5, 6))
    >>> hidden = np.ones((2, 5, 6), "float32")
    >>> tuple(attention(hidden, hidden, attention_mask=np.ones((2, 1, 5))).shape)
    (2, 5, 6)
    """

    # Keras passes masks of embeddings too; KerasHub has put them into `attention_mask`.
    def call(
        self, query, value=None, attention_mask=None, training=None, **embedding_masks
    ) -> tf.Tensor:
        """Return the attention output of each token, `[batch, length, width]`.

        Args:
            query: hidden states `[batch, length, width]`.
            value: the same tensor; KerasHub passes both.
            attention_mask: `[batch, length or 1, length]`, true where a token may attend.
            training: whether dropout is applied to the attention weights.
        """
        query, key, value = self.project(query)
        scores = tf.matmul(query * self._inverse_sqrt_key_dim, key, transpose_b=True)
        if attention_mask is not None:
            scores = hide(scores, attention_mask[:, None])
        weights = self._dropout_layer(tf.nn.softmax(scores), training=training)
        return self._output_dense(tf.transpose(weights @ value, (0, 2, 1, 3)))

    def project(self, hidden) -> list[tf.Tensor]:
        """Return query, key and value, each `[batch, heads, length, size]`, by one product."""
        projections = (self._query_dense, self._key_dense, self._value_dense)
        width, heads, size = self._query_dense.kernel.shape
        with AutocastScope(None):  # joined first, kernels and biases are cast once
            kernel = join(*(tf.reshape(part.kernel, (width, -1)) for part in projections))
            bias = join(*(tf.reshape(part.bias, (-1,)) for part in projections))
        kernel, bias = tf.cast(kernel, hidden.dtype), tf.cast(bias, hidden.dtype)
        batch, length, _ = tf.unstack(tf.shape(hidden))
        projected = tf.nn.bias_add(tf.reshape(hidden, (-1, width)) @ kernel, bias)
        projected = tf.reshape(projected, (batch, length, 3, heads, size))
        return tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))


@tf.custom_gradient
def join(*parts) -> tuple:
    """Concatenate tensors of one shape along the last axis; the gradient is split at once."""
    return tf.concat(parts, -1), lambda upstream: tf.split(upstream, len(parts), -1)


@keras.saving.register_keras_serializable("common")
class LayerNormalization(keras.layers.LayerNormalization):
    """Normalization over the features of each token: gamma (x - mean) / deviation + beta.

    Source: Ba et al. 2016, https://arxiv.org/abs/1607.06450.

    Example:

    >>> layer = LayerNormalization(epsilon=1e-6)
    >>> layer(np.array([[1.0, 3.0]], "float32")).numpy().round(3).tolist()
    [[-1.0, 1.0]]
    """

    def call(self, inputs) -> tf.Tensor:
        """Return outputs `[..., width]` of inputs `[..., width]`, computed in float32."""
        arguments = (tf.cast(part, "float32") for part in (inputs, self.gamma, self.beta))
        return tf.cast(self.normalize(*arguments), self.compute_dtype)

    def normalize(self, inputs, gamma, beta) -> tf.Tensor:
        @tf.custom_gradient
        def forward(inputs, gamma, beta) -> tuple:
            centered = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
            variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
            scale = tf.math.rsqrt(variance + self.epsilon)
            normal = centered * scale

            def backward(upstream) -> tf.Tensor | tuple:
                # The mean and the deviation of normalized features are constant.
                inner = upstream * gamma
                along = tf.reduce_mean(inner * normal, axis=-1, keepdims=True)
                inner -= normal * along + tf.reduce_mean(inner, axis=-1, keepdims=True)
                tokens = list(range(len(inputs.shape) - 1))
                return (
                    inner * scale,
                    tf.reduce_sum(upstream * normal, axis=tokens),
                    tf.reduce_sum(upstream, axis=tokens),
                )

            return normal * gamma + beta, backward

        return forward(inputs, gamma, beta)


def activation(parts: Callable) -> Callable:
    """Return an activation with its own gradient, from a function that gives value and slope."""

    @tf.custom_gradient
    def forward(inputs) -> tuple:
        if answer := activate(parts, inputs):
            return answer
        # Squares and cubes don't fit into float16.
        wide = tf.cast(inputs, "float32") if inputs.dtype == tf.float16 else inputs
        outputs, slope = parts(wide)
        slope = tf.cast(slope, inputs.dtype)
        return tf.cast(outputs, inputs.dtype), lambda upstream: upstream * slope

    return functools.wraps(parts)(lambda inputs: forward(tf.convert_to_tensor(inputs)))


@keras.saving.register_keras_serializable("common")
@activation
def exact_gelu_function(inputs) -> tuple:
    """Return x Phi(x), whose gradient is Phi(x) + x phi(x).

    Source: Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415.
    """
    below = 0.5 + 0.5 * tf.math.erf(math.sqrt(0.5) * inputs)
    density = tf.exp(-0.5 * tf.square(inputs) - 0.5 * math.log(math.tau))
    return inputs * below, below + inputs * density


@keras.saving.register_keras_serializable("common")
@activation
def tanh_gelu_function(inputs) -> tuple:
    """Return x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), close to x Phi(x)."""
    scale, cubic, square = math.sqrt(2 / math.pi), 0.044715, tf.square(inputs)
    bent = tf.tanh(scale * inputs * (1 + cubic * square))
    rise = scale * (1 + 3 * cubic * square) * (1 - tf.square(bent))
    return 0.5 * inputs * (1 + bent), 0.5 * (1 + bent + inputs * rise)
