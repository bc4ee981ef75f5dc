"""RoFormerV2: RoFormer without biases, with root-mean-square normalization.

Source: Su et al. 2022, https://github.com/ZhuiyiTechnology/roformer-v2.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from core.fast.layer_programs import compiled_alone
from core.fast.transformer import TransformerLayer, hide
from extras.encoders.fields import Fields
from extras.encoders.postnorm import PostNormEncoder, initializer, rotate_neighbours
from extras.encoders.weights import Weights


@keras.saving.register_keras_serializable("encoders")
class RootMeanSquare(keras.layers.Layer):
    """Root-mean-square normalization of each token's features, without weights.

    Args:
        epsilon: avoids division by 0.
        **kwargs: as in any layer.
    """

    def __init__(self, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def call(self, inputs) -> tf.Tensor:
        """Return `[..., width]` of inputs `[..., width]`, computed in float32."""
        inputs = tf.cast(inputs, "float32")
        square = tf.reduce_mean(tf.square(inputs), axis=-1, keepdims=True)
        return tf.cast(inputs * tf.math.rsqrt(square + self.epsilon), self.compute_dtype)

    def compute_output_shape(self, inputs_shape) -> tuple:
        return inputs_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "epsilon": self.epsilon}


@keras.saving.register_keras_serializable("encoders")
class RoFormerV2Layer(TransformerLayer):
    """A layer without biases.

    Args:
        attention_dropout: dropout of attention weights; `dropout` is that of the parts' outputs.
        rotary_value: whether values are rotated like queries and keys.
        **kwargs: as in `keras_hub.layers.TransformerEncoder`.
    """

    def __init__(
        self, *, attention_dropout: float = 0.0, rotary_value: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.attention_dropout = attention_dropout
        self.rotary_value = rotary_value

    def build(self, inputs_shape) -> None:
        width = inputs_shape[-1]
        policy = self.dtype_policy

        def dense(inner: int, outer: int, name: str) -> keras.layers.Dense:
            options = {"use_bias": False, "kernel_initializer": initializer()}
            made = keras.layers.Dense(outer, dtype=policy, name=name, **options)
            made.build((None, None, inner))
            return made

        def dropout(rate: float, name: str) -> keras.layers.Dropout:
            return keras.layers.Dropout(rate, dtype=policy, name=name)

        self.query, self.key, self.value = (
            dense(width, width, name) for name in ("query", "key", "value")
        )
        self.weights_dropout = dropout(self.attention_dropout, "weights_dropout")
        self.attention_output = dense(width, width, "attention_output")
        self.attention_output_dropout = dropout(self.dropout, "attention_output_dropout")
        self.intermediate = dense(width, self.intermediate_dim, "intermediate")
        self.feedforward_output = dense(self.intermediate_dim, width, "feedforward_output")
        self.feedforward_dropout = dropout(self.dropout, "feedforward_dropout")
        self.normalization = RootMeanSquare(
            self.layer_norm_epsilon, dtype=policy, name="normalization"
        )
        self.built = True

    @compiled_alone
    def call(self, inputs, padding_mask=None, training=None) -> tf.Tensor:
        """Return hidden states `[batch, length, width]` of inputs of that shape.

        Args:
            inputs: outputs of the layer below.
            padding_mask: `[batch, length]`, 0 for padding.
            training: whether dropout is on.
        """
        gathered = self.attention_output(self.attend(inputs, padding_mask, training))
        gathered = self.attention_output_dropout(gathered, training=training)
        hidden = self.normalization(inputs + gathered)
        outputs = self.feedforward_output(self.activation(self.intermediate(hidden)))
        return self.normalization(hidden + self.feedforward_dropout(outputs, training=training))

    def attend(self, inputs, padding_mask, training) -> tf.Tensor:
        """Return the attention output `[batch, length, width]`."""
        batch, length, width = tf.unstack(tf.shape(inputs))
        size = inputs.shape[-1] // self.num_heads
        parts = (self.query, self.key, self.value)
        kernel = tf.concat([tf.cast(part.kernel, inputs.dtype) for part in parts], axis=1)
        projected = tf.reshape(inputs, (-1, inputs.shape[-1])) @ kernel
        projected = tf.reshape(projected, (batch, length, 3, self.num_heads, size))
        query, key, value = tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))
        query, key = rotate_neighbours(query * (1 / math.sqrt(size))), rotate_neighbours(key)
        if self.rotary_value:
            value = rotate_neighbours(value)
        scores = tf.matmul(query, key, transpose_b=True)
        if padding_mask is not None:
            scores = hide(scores, padding_mask[:, None, None])
        weights = self.weights_dropout(tf.nn.softmax(scores), training=training)
        return tf.reshape(tf.transpose(weights @ value, (0, 2, 1, 3)), (batch, length, width))

    def get_config(self) -> dict:
        own = {"attention_dropout": self.attention_dropout, "rotary_value": self.rotary_value}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("encoders")
class RoFormerV2(PostNormEncoder):
    """RoFormerV2: `layer_options` has `rotary_value`."""

    layer_class = RoFormerV2Layer
    has_biases = False

    def make_norm(self, dtype: Any) -> keras.layers.Layer:
        return RootMeanSquare(self.layer_norm_epsilon, dtype=dtype, name="embeddings_layer_norm")


def make_roformer_v2(fields: Fields, weights: Weights, options: dict[str, Any]) -> keras.Model:
    """Return RoFormerV2 with its weights.

    Args:
        fields: of config.json.
        weights: named as BERT's, without biases and normalizations.
        options: arguments of the encoder.
    """
    fields.require("use_bias", False)
    encoder = RoFormerV2(**options)
    assign_roformer_v2(encoder, weights)
    return encoder


def assign_roformer_v2(encoder: RoFormerV2, weights: Weights) -> None:
    """Assign the weights of RoFormerV2."""
    weights.assign(encoder.token_embedding.embeddings, "embeddings.word_embeddings.weight")
    weights.assign(encoder.segment_embedding.embeddings, "embeddings.token_type_embeddings.weight")
    if encoder.embedding_dim:
        weights.assign(encoder.embeddings_projection.kernel, "embeddings_project.weight")
    for number, layer in enumerate(encoder.transformer_layers):
        parts = {
            "attention.self.query": layer.query,
            "attention.self.key": layer.key,
            "attention.self.value": layer.value,
            "attention.output.dense": layer.attention_output,
            "intermediate.dense": layer.intermediate,
            "output.dense": layer.feedforward_output,
        }
        for name, part in parts.items():
            weights.assign(part.kernel, f"encoder.layer.{number}.{name}.weight")
