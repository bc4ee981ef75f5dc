"""The shared parts of families that follow BERT: embeddings, then post-norm layers.

The classes at the end are kinds of attention with relative positions.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from core.base.replace_class import replace_class
from core.fast.transformer import (
    LayerNormalization,
    SelfAttention,
    TransformerLayer,
    exact_gelu_function,
    hide,
    tanh_gelu_function,
)
from extras.encoders.fields import GELU, TANH_GELU
from extras.encoders.one_pass import in_one_pass
from extras.encoders.weights import Weights

SEGMENTS = "embeddings.token_type_embeddings.weight"


def activation_function(name: str) -> Callable:
    """Return an activation by its name in `fields.ACTIVATIONS`."""
    own = {GELU: exact_gelu_function, TANH_GELU: tanh_gelu_function}
    return own.get(name) or keras.activations.get(name)


def initializer() -> keras.initializers.Initializer:
    """Return the initializer of BERT's authors for weights that no file has."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


@keras.saving.register_keras_serializable("encoders")
class PostNormLayer(TransformerLayer):
    """The Transformer layer of BERT.

    Args:
        attention_dropout: dropout of attention weights.
        **kwargs: as in `keras_hub.layers.TransformerEncoder`.
    """

    attention_class: ClassVar[type] = SelfAttention

    def __init__(self, *args: Any, attention_dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attention_dropout = attention_dropout

    def build(self, inputs_shape) -> None:
        super().build(inputs_shape)
        attention = self._self_attention_layer
        replace_class(attention, self.attention_class)
        attention._dropout = attention._dropout_layer.rate = self.attention_dropout

    def feed_forward(self, inputs, attended, training) -> tf.Tensor:
        """Return `[batch, length, width]`, of the inputs and their attention output."""
        attended = self._self_attention_dropout(attended, training=training)
        attended = self._self_attention_layer_norm(inputs + attended)
        hidden = self._feedforward_intermediate_dense(attended)
        hidden = self._feedforward_output_dense(hidden)
        hidden = self._feedforward_dropout(hidden, training=training)
        return self._feedforward_layer_norm(attended + hidden)

    def get_config(self) -> dict:
        return {**super().get_config(), "attention_dropout": self.attention_dropout}


@keras.saving.register_keras_serializable("encoders")
class PostNormEncoder(keras_hub.models.Backbone):
    """Token ids to hidden states `[batch, length, hidden_dim]`.

    Args:
        vocabulary_size: rows of the token embedding.
        num_layers: layers that the hidden states pass.
        num_heads: of attention.
        hidden_dim: width of hidden states.
        intermediate_dim: inner width of the feed-forward part.
        embedding_dim: width of the embeddings; 0: `hidden_dim`, without projection.
        max_sequence_length: maximum tokens of a text; None: any number.
        has_positions: whether there are position embeddings; otherwise attention has positions.
        num_segments: rows of the segment embedding; 0: no input `segment_ids`.
        activation: one of the values of `fields.ACTIVATIONS`.
        layer_norm_epsilon: of all normalizations.
        dropout: of embeddings and hidden states; `attention_dropout`: of attention weights.
        layer_options: further arguments of the layers.
        origin: as in `Bert`.
        **kwargs: `name`, `trainable`.
    """

    layer_class: ClassVar[type[TransformerLayer]] = PostNormLayer
    has_biases: ClassVar[bool] = True

    def __init__(
        self,
        *,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        embedding_dim: int = 0,
        max_sequence_length: int | None = 512,
        has_positions: bool = True,
        num_segments: int = 2,
        activation: str = GELU,
        layer_norm_epsilon: float = 1e-12,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        layer_options: dict[str, Any] | None = None,
        origin: dict[str, Any] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.embedding_dim = embedding_dim
        self.max_sequence_length = max_sequence_length
        self.has_positions = has_positions
        self.num_segments = num_segments
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.layer_options, self.origin = dict(layer_options or {}), origin
        self.make_embeddings(dtype)
        self.transformer_layers = self.make_layers(dtype)
        names = ("token_ids", "segment_ids", "padding_mask")
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in names
            if num_segments or name != "segment_ids"
        }
        hidden = self.embed(inputs)
        outputs = self.transform(hidden, inputs["padding_mask"])
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

    def make_embeddings(self, dtype: Any) -> None:
        """Make the layers below the first Transformer layer."""
        width = self.embedding_dim or self.hidden_dim

        def table(kind: Any, rows: int, name: str) -> keras.layers.Layer:
            return kind(rows, width, embeddings_initializer=initializer(), dtype=dtype, name=name)

        self.token_embedding = table(
            keras.layers.ReversibleEmbedding, self.vocabulary_size, "token_embedding"
        )
        if self.has_positions:
            self.position_embedding = keras_hub.layers.PositionEmbedding(
                self.max_sequence_length, initializer(), dtype=dtype, name="position_embedding"
            )
        if self.num_segments:
            self.segment_embedding = table(
                keras.layers.Embedding, self.num_segments, "segment_embedding"
            )
        self.embeddings_layer_norm = self.make_norm(dtype)
        self.embeddings_dropout = keras.layers.Dropout(
            self.dropout, dtype=dtype, name="embeddings_dropout"
        )
        if self.embedding_dim:
            self.embeddings_projection = keras.layers.Dense(
                self.hidden_dim,
                use_bias=self.has_biases,
                kernel_initializer=initializer(),
                dtype=dtype,
                name="embeddings_projection",
            )

    def make_norm(self, dtype: Any) -> keras.layers.Layer:
        """Return the normalization of the embeddings."""
        return LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=dtype, name="embeddings_layer_norm"
        )

    def make_layers(self, dtype: Any) -> list[TransformerLayer]:
        """Return the Transformer layers, from the lowest."""
        return [
            self.layer_class(
                intermediate_dim=self.intermediate_dim,
                num_heads=self.num_heads,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation=activation_function(self.activation),
                layer_norm_epsilon=self.layer_norm_epsilon,
                kernel_initializer=initializer(),
                dtype=dtype,
                name=f"transformer_layer_{number}",
                **self.layer_options,
            )
            for number in range(self.num_layers)
        ]

    def embed(self, inputs: dict[str, keras.KerasTensor]) -> keras.KerasTensor:
        """Return the inputs of the first Transformer layer."""
        hidden = tokens = self.token_embedding(inputs["token_ids"])
        if self.has_positions:
            hidden = keras.layers.Add(name="add_positions")(
                (hidden, self.position_embedding(tokens))
            )
        if self.num_segments:
            segments = self.segment_embedding(inputs["segment_ids"])
            hidden = keras.layers.Add(name="add_segments")((hidden, segments))
        hidden = self.embeddings_dropout(self.embeddings_layer_norm(hidden))
        return self.embeddings_projection(hidden) if self.embedding_dim else hidden

    def transform(self, hidden: keras.KerasTensor, mask: keras.KerasTensor) -> keras.KerasTensor:
        """Return the outputs of the last Transformer layer."""
        for layer in self.transformer_layers:
            hidden = layer(hidden, padding_mask=mask)
        return hidden

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "embedding_dim": self.embedding_dim,
            "max_sequence_length": self.max_sequence_length,
            "has_positions": self.has_positions,
            "num_segments": self.num_segments,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "layer_options": dict(self.layer_options),
            "origin": self.origin,
        }


def assign_embeddings(encoder: keras.Model, weights: Weights) -> None:
    """Assign the weights of the layers below the first Transformer layer."""
    embeddings = {
        "token_embedding": "word_embeddings",
        "position_embedding": "position_embeddings",
        "segment_embedding": "token_type_embeddings",
    }
    for attribute, name in embeddings.items():
        layer = getattr(encoder, attribute, None)
        if layer is not None:
            weights.assign(layer.weights[0], f"embeddings.{name}.weight")
    assign_pair(weights, encoder.embeddings_layer_norm, "embeddings.LayerNorm")
    if getattr(encoder, "embedding_dim", 0):
        assign_pair(weights, encoder.embeddings_projection, "embeddings_project")


def assign_layer(layer: TransformerLayer, weights: Weights, prefix: str) -> None:
    """Assign the weights of a Transformer layer, with BERT's names."""
    attention = layer._self_attention_layer
    parts = {
        "attention.self.query": attention._query_dense,
        "attention.self.key": attention._key_dense,
        "attention.self.value": attention._value_dense,
        "attention.output.dense": attention._output_dense,
        "attention.output.LayerNorm": layer._self_attention_layer_norm,
        "intermediate.dense": layer._feedforward_intermediate_dense,
        "output.dense": layer._feedforward_output_dense,
        "output.LayerNorm": layer._feedforward_layer_norm,
    }
    for name, part in parts.items():
        assign_pair(weights, part, f"{prefix}.{name}")


def assign_pair(weights: Weights, layer: keras.layers.Layer, name: str) -> None:
    """Assign the two weights of a layer."""
    kernel, bias = layer.weights
    weights.assign(kernel, f"{name}.weight")
    weights.assign(bias, f"{name}.bias")


def assign_all(encoder: keras.Model, weights: Weights) -> None:
    """Assign the weights of BERT to an encoder."""
    assign_embeddings(encoder, weights)
    for number, layer in enumerate(encoder.transformer_layers):
        assign_layer(layer, weights, f"encoder.layer.{number}")


class PositionedAttention(SelfAttention):
    """`SelfAttention` with replaceable parts."""

    def score(self, query, key) -> tf.Tensor:
        """Return the attention scores, `[batch, heads, length, length]`."""
        return tf.matmul(query, key, transpose_b=True)

    def gather(self, weights, value) -> tf.Tensor:
        """Return the weighted values, `[batch, heads, length, size]`."""
        return weights @ value

    def call(
        self, query, value=None, attention_mask=None, training=None, **embedding_masks
    ) -> tf.Tensor:
        """Return the attention output; arguments as in `SelfAttention`."""
        query, key, value = self.project(query)
        scores = self.score(query * self._inverse_sqrt_key_dim, key)
        if attention_mask is not None:
            scores = hide(scores, attention_mask[:, None])
        weights = self._dropout_layer(tf.nn.softmax(scores), training=training)
        return self._output_dense(tf.transpose(self.gather(weights, value), (0, 2, 1, 3)))


def static_length(tensor) -> int | tf.Tensor:
    """Return the length of `[..., length, size]`, as a number if it is static."""
    length = tensor.shape[-2]
    return tf.shape(tensor)[-2] if length is None else length


def distances(length) -> tf.Tensor:
    """Return the distance from each token `[length, 1]` to each other `[1, length]`."""
    places = tf.range(length)
    return places[None, :] - places[:, None]


@in_one_pass
def by_distance(products: tf.Tensor) -> tf.Tensor:
    """Turn products of tokens with distances into products of tokens with tokens.

    Args:
        products: `[..., length, 2 length - 1]`; the last axis is distances from `1 - length` on.

    Returns:
        `[..., length, length]`: for tokens i and j the product of i with the distance j - i. This
        needs no lookup: with one more number per row, reshaping shifts each row by one.
    """
    return shift_rows(products)


def shift_rows(products: tf.Tensor) -> tf.Tensor:
    """Compute `by_distance` with single operations."""
    shape, length = tf.shape(products), static_length(products)
    padded = tf.pad(products, [[0, 0]] * (len(products.shape) - 1) + [[0, 1]])
    flat = tf.reshape(padded, tf.concat([shape[:-2], [2 * length * length]], 0))
    flat = flat[..., length - 1 : 2 * length * length - 1]
    rows = tf.reshape(flat, tf.concat([shape[:-2], [length, 2 * length - 1]], 0))
    return rows[..., :length]


@in_one_pass
def by_distance_back(products: tf.Tensor) -> tf.Tensor:
    """Like `by_distance` with i and j swapped: the product of j with the distance i - j."""
    return tf.linalg.matrix_transpose(shift_rows(products))


def rotation(length, size: int, theta: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Return cosine and sine of the angles of each position, `[length, size / 2]`.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.
    """
    rates = theta ** (-np.arange(0, size, 2) / size)
    angles = tf.cast(tf.range(length), "float32")[:, None] * tf.constant(rates, "float32")
    return tf.cos(angles), tf.sin(angles)


@keras.saving.register_keras_serializable("encoders")
class RotaryAttention(PositionedAttention):
    """RoFormer's attention: rotates pairs of neighbouring features of queries and keys."""

    rotary_value = False

    def project(self, hidden) -> list[tf.Tensor]:
        query, key, value = super().project(hidden)
        turned = rotate_neighbours(value) if self.rotary_value else value
        return [rotate_neighbours(query), rotate_neighbours(key), turned]


@in_one_pass
def rotate_neighbours(vectors: tf.Tensor) -> tf.Tensor:
    """Rotate pairs of neighbouring features of `[..., length, size]` by position."""
    cosine, sine = rotation(static_length(vectors), vectors.shape[-1], 10000.0)
    cosine, sine = tf.cast(cosine, vectors.dtype), tf.cast(sine, vectors.dtype)
    first, second = vectors[..., ::2], vectors[..., 1::2]
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return tf.reshape(tf.stack(turned, axis=-1), tf.shape(vectors))


@keras.saving.register_keras_serializable("encoders")
class RelativeAttention(PositionedAttention):
    """NEZHA's attention: adds sinusoids of the distance, clipped at the reach, to keys and values.

    Source: Wei et al. 2019, https://arxiv.org/abs/1909.00204.
    """

    reach = 64

    def waves(self, length, dtype) -> tf.Tensor:
        """Return the sinusoids of all distances between tokens, `[length, length, size]`."""
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
