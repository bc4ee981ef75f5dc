"""ModernBERT: layers with local attention, some with global attention, and no biases.

Source: Warner et al. 2024, https://arxiv.org/abs/2412.13663.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.fast.layer_programs import compiled_alone
from core.fast.transformer import LayerNormalization, TransformerLayer, hide
from extras.encoders.fields import GELU, Fields
from extras.encoders.one_pass import in_one_pass
from extras.encoders.postnorm import (
    activation_function,
    distances,
    initializer,
    rotation,
    static_length,
)
from extras.encoders.weights import Weights

LOCAL, GLOBAL = "sliding_attention", "full_attention"


@functools.cache
def gated_by(activation: Callable) -> Callable[..., tf.Tensor]:
    """Return the product of values and activated gates, the halves of the last axis."""

    def open_gate(halves: tf.Tensor) -> tf.Tensor:
        value, gate = tf.split(halves, 2, axis=-1)
        return activation(value) * gate

    return in_one_pass(open_gate)


@functools.cache
def turned_by(theta: float) -> Callable[..., tf.Tensor]:
    """Return a function that rotates vectors by their positions; theta as in `rotation`."""

    def turn(vectors: tf.Tensor) -> tf.Tensor:
        """Rotate vectors `[..., length, size]` by their positions; pairs come from both halves."""
        cosine, sine = rotation(static_length(vectors), vectors.shape[-1], theta)
        cosine, sine = tf.cast(cosine, vectors.dtype), tf.cast(sine, vectors.dtype)
        first, second = tf.split(vectors, 2, axis=-1)
        turned = [first * cosine - second * sine, second * cosine + first * sine]
        return tf.concat(turned, axis=-1)

    return in_one_pass(turn)


@keras.saving.register_keras_serializable("encoders")
class ScaleNormalization(LayerNormalization):
    """Layer normalization without a shift."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "center": False})

    def call(self, inputs) -> tf.Tensor:
        inputs, gamma = tf.cast(inputs, "float32"), tf.cast(self.gamma, "float32")
        return tf.cast(self.normalize(inputs, gamma, tf.zeros_like(gamma)), self.compute_dtype)


@keras.saving.register_keras_serializable("encoders")
class ModernBertLayer(TransformerLayer):
    """A pre-norm layer with a gated feed-forward part.

    Args:
        attention_dropout: dropout of attention weights; `dropout` is that of the parts' outputs.
        reach: distance that a token sees; 0: everything.
        theta: base of the rotation of queries and keys.
        is_first: whether it is the lowest layer, whose inputs are already normalized.
        **kwargs: as in `keras_hub.layers.TransformerEncoder`.
    """

    def __init__(
        self,
        *,
        attention_dropout: float = 0.0,
        reach: int = 0,
        theta: float = 10000.0,
        is_first: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.attention_dropout = attention_dropout
        self.reach, self.theta, self.is_first = reach, theta, is_first

    def build(self, inputs_shape) -> None:
        width = inputs_shape[-1]

        def dense(inner: int, outer: int, name: str) -> keras.layers.Dense:
            options = {"use_bias": False, "dtype": self.dtype_policy, "name": name}
            made = keras.layers.Dense(outer, kernel_initializer=initializer(), **options)
            made.build((None, None, inner))
            return made

        def norm(name: str) -> ScaleNormalization:
            options = {"dtype": self.dtype_policy, "name": name}
            made = ScaleNormalization(epsilon=self.layer_norm_epsilon, **options)
            made.build(inputs_shape)
            return made

        def dropout(rate: float, name: str) -> keras.layers.Dropout:
            return keras.layers.Dropout(rate, dtype=self.dtype_policy, name=name)

        self.attention_norm = None if self.is_first else norm("attention_norm")
        self.projection = dense(width, 3 * width, "projection")
        self.weights_dropout = dropout(self.attention_dropout, "weights_dropout")
        self.attention_output = dense(width, width, "attention_output")
        self.attention_output_dropout = dropout(self.dropout, "attention_output_dropout")
        self.feedforward_norm = norm("feedforward_norm")
        self.gated = dense(width, 2 * self.intermediate_dim, "gated")
        self.gated_dropout = dropout(self.dropout, "gated_dropout")
        self.feedforward_output = dense(self.intermediate_dim, width, "feedforward_output")
        self.built = True

    @compiled_alone
    def call(self, inputs, padding_mask=None, training=None) -> tf.Tensor:
        """Return hidden states `[batch, length, width]` of inputs of that shape.

        Args:
            inputs: outputs of the layer below.
            padding_mask: `[batch, length]`, 0 for padding.
            training: whether dropout is on.
        """
        hidden = self.attend(inputs, padding_mask, training)
        opened = gated_by(self.activation)(self.gated(self.feedforward_norm(hidden)))
        opened = self.gated_dropout(opened, training=training)
        return hidden + self.feedforward_output(opened)

    def attend(self, inputs, padding_mask, training) -> tf.Tensor:
        """Return the inputs plus the attention output."""
        normal = inputs if self.attention_norm is None else self.attention_norm(inputs)
        batch, length, width = tf.unstack(tf.shape(inputs))
        size = inputs.shape[-1] // self.num_heads
        projected = tf.reshape(self.projection(normal), (batch, length, 3, self.num_heads, size))
        query, key, value = tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))
        turn = turned_by(self.theta)
        query, key = turn(query * (1 / math.sqrt(size))), turn(key)
        scores = tf.matmul(query, key, transpose_b=True) + self.mask(inputs, padding_mask)
        weights = self.weights_dropout(tf.nn.softmax(scores), training=training)
        gathered = tf.reshape(tf.transpose(weights @ value, (0, 2, 1, 3)), (batch, length, width))
        gathered = self.attention_output(gathered)
        return inputs + self.attention_output_dropout(gathered, training=training)

    def mask(self, inputs, padding_mask) -> tf.Tensor:
        """Return the additive mask of the scores: one array, because the scores are large."""
        hidden = tf.zeros((1, 1, 1), self.compute_dtype)
        if padding_mask is not None:
            hidden = 1.0 - tf.cast(padding_mask, self.compute_dtype)[:, None]
        if self.reach:
            far = tf.abs(distances(static_length(inputs))) > self.reach
            hidden = tf.maximum(hidden, tf.cast(far, self.compute_dtype))
        return hide(tf.zeros((), hidden.dtype), 1.0 - hidden)[:, None]

    def get_config(self) -> dict:
        own = {"attention_dropout": self.attention_dropout, "reach": self.reach}
        return {**super().get_config(), **own, "theta": self.theta, "is_first": self.is_first}


@keras.saving.register_keras_serializable("encoders")
class ModernBert(keras_hub.models.Backbone):
    """Token ids to hidden states `[batch, length, hidden_dim]`.

    Args:
        vocabulary_size: rows of the token embedding.
        num_layers: Transformer layers; `layer_options` has the options of each.
        num_heads: of attention.
        hidden_dim: width of hidden states.
        intermediate_dim: inner width of the feed-forward part.
        max_sequence_length: maximum tokens of a text in its training.
        activation: one of the values of `fields.ACTIVATIONS`.
        layer_norm_epsilon: of all normalizations.
        dropout: of embeddings and hidden states; `attention_dropout`: of attention weights.
        layer_options: for each layer `reach` and `theta`.
        **kwargs: `name`, `trainable`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        layer_options: list[dict[str, Any]],
        max_sequence_length: int = 8192,
        activation: str = GELU,
        layer_norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.layer_options = [dict(options) for options in layer_options]
        self.max_sequence_length = max_sequence_length
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.token_embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            hidden_dim,
            embeddings_initializer=initializer(),
            dtype=dtype,
            name="token_embedding",
        )
        norm = {"epsilon": layer_norm_epsilon, "dtype": dtype}
        self.embeddings_layer_norm = ScaleNormalization(name="embeddings_layer_norm", **norm)
        self.embeddings_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="embeddings_dropout"
        )
        self.final_norm = ScaleNormalization(name="final_norm", **norm)
        self.transformer_layers = self.make_layers(dtype)
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("token_ids", "padding_mask")
        }
        hidden = self.embeddings_layer_norm(self.token_embedding(inputs["token_ids"]))
        hidden = self.embeddings_dropout(hidden)
        for layer in self.transformer_layers:
            hidden = layer(hidden, padding_mask=inputs["padding_mask"])
        outputs = self.final_norm(hidden)
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

    def make_layers(self, dtype: Any) -> list[ModernBertLayer]:
        """Return the Transformer layers, from the lowest."""
        return [
            ModernBertLayer(
                intermediate_dim=self.intermediate_dim,
                num_heads=self.num_heads,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation=activation_function(self.activation),
                layer_norm_epsilon=self.layer_norm_epsilon,
                is_first=number == 0,
                dtype=dtype,
                name=f"transformer_layer_{number}",
                **options,
            )
            for number, options in enumerate(self.layer_options)
        ]

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "layer_options": [dict(options) for options in self.layer_options],
            "max_sequence_length": self.max_sequence_length,
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
        }


def make_modernbert(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return ModernBERT with its weights."""
    for name in ("norm_bias", "attention_bias", "mlp_bias"):
        fields.require(name, False)
    # The published files have these fields of BERT, but the model does not use them.
    fields.asked |= {"layer_norm_eps", "position_embedding_type"}
    encoder = ModernBert(
        **fields.sizes(settings),
        layer_options=read_layers(fields),
        max_sequence_length=fields.number("max_position_embeddings", 8192),
        activation=fields.activation("hidden_activation"),
        layer_norm_epsilon=fields.real("norm_eps", 1e-5),
    )
    assign_modernbert(encoder, weights)
    return encoder


def assign_modernbert(encoder: ModernBert, weights: Weights) -> None:
    """Assign the weights of ModernBERT."""
    weights.assign(encoder.token_embedding.embeddings, "embeddings.tok_embeddings.weight")
    weights.assign(encoder.embeddings_layer_norm.gamma, "embeddings.norm.weight")
    weights.assign(encoder.final_norm.gamma, "final_norm.weight")
    for number, layer in enumerate(encoder.transformer_layers):
        parts = {
            "attn_norm": layer.attention_norm,
            "attn.Wqkv": layer.projection,
            "attn.Wo": layer.attention_output,
            "mlp_norm": layer.feedforward_norm,
            "mlp.Wi": layer.gated,
            "mlp.Wo": layer.feedforward_output,
        }
        for name, part in parts.items():
            if part is not None:
                weights.assign(part.weights[0], f"layers.{number}.{name}.weight")


def read_layers(fields: Fields) -> list[dict[str, Any]]:
    """Return the reach and the rotation base of each layer.

    Raises:
        InputError: scaled rotations, or a third kind of layer.
    """
    fields.require("rope_scaling", None)
    every, count = (
        fields.number("global_attn_every_n_layers", 3),
        fields.number("num_hidden_layers"),
    )
    kinds = [LOCAL if every and number % every else GLOBAL for number in range(count)]
    kinds = fields.get("layer_types", kinds)
    stored = fields.get("rope_parameters", {})
    old = {LOCAL: ("local_rope_theta", 10000.0), GLOBAL: ("global_rope_theta", 160000.0)}
    options = {}
    for kind, (name, theta) in old.items():
        angles = {"rope_theta": fields.real(name, theta), **(stored.get(kind) or {})}
        if angles.get("rope_type", "default") != "default":
            raise InputError(
                f"{fields.path}: rope_parameters of {kind} = {angles}, and only the rope_type "
                "'default' is computed here: choose an encoder that was trained so."
            )
        reach = fields.number("local_attention", 128) // 2 if kind == LOCAL else 0
        options[kind] = {"reach": reach, "theta": float(angles["rope_theta"])}
    if len(kinds) != count or set(kinds) - set(options):
        raise InputError(
            f"{fields.path}: layer_types must name {LOCAL} or {GLOBAL} for each of {count} layers: "
            "fetch the config.json of the model again."
        )
    return [options[kind] for kind in kinds]
