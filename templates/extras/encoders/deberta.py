"""DeBERTa-v2 and v3: tokens and distances attend to each other.

Source: He et al. 2021, https://arxiv.org/abs/2006.03654 and https://arxiv.org/abs/2111.09543.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.fast.layer_programs import compiled_alone
from core.fast.transformer import LayerNormalization, hide
from extras.encoders.families import post_norm_options
from extras.encoders.fields import Fields
from extras.encoders.postnorm import (
    PositionedAttention,
    PostNormEncoder,
    PostNormLayer,
    activation_function,
    assign_embeddings,
    assign_layer,
    assign_pair,
    by_distance,
    by_distance_back,
    initializer,
    static_length,
)
from extras.encoders.weights import Weights

OF_DEBERTA = ((r"\.attention\.self\.(query|key|value)_proj\.", r".attention.self.\1."),)
CONTENT_TO_POSITION, POSITION_TO_CONTENT = "c2p", "p2c"


def bucket_rows(buckets: int, reach: int) -> np.ndarray:
    """Return the row of the distance table for each distance from `-reach` to `reach`.

    Small distances have their own rows; larger ones share rows on a logarithmic scale.

    Args:
        buckets: rows for forward distances, and the same number backward; 0: one per distance.
        reach: all larger distances are equal.
    """
    distances = np.arange(-reach, reach + 1)
    rows = buckets or reach
    if not buckets:
        return np.clip(distances + rows, 0, 2 * rows - 1)
    middle = buckets // 2
    far = np.maximum(np.abs(distances), middle).astype(np.float32)
    share = np.log(far / np.float32(middle)) / np.log(np.float32((reach - 1) / middle))
    shared = np.sign(distances) * (np.ceil(share * (middle - 1)) + middle)
    found = np.where(np.abs(distances) <= middle, distances, shared).astype(int)
    return np.clip(found + rows, 0, 2 * rows - 1)


@keras.saving.register_keras_serializable("encoders")
class DistanceTable(keras.layers.Layer):
    """The distance embeddings, shared by all Transformer layers.

    Args:
        rows: of the table.
        normalized: whether they are normalized.
        epsilon: of the normalization.
        **kwargs: as in `keras.layers.Layer`.
    """

    def __init__(self, rows: int, normalized: bool, epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rows, self.normalized, self.epsilon = rows, normalized, epsilon
        options = {"epsilon": epsilon, "dtype": self.dtype_policy, "name": "norm"}
        self.norm = LayerNormalization(**options) if normalized else None

    def build(self, inputs_shape) -> None:
        shape = (self.rows, inputs_shape[-1])
        self.embeddings = self.add_weight(shape=shape, initializer=initializer(), name="embeddings")
        if self.norm is not None:
            self.norm.build(shape)

    def call(self, hidden) -> tf.Tensor:
        """Return `[rows, width]`, independent of the hidden states `[batch, length, width]`."""
        table = tf.cast(tf.convert_to_tensor(self.embeddings), self.compute_dtype)
        return table if self.norm is None else self.norm(table)

    def compute_output_shape(self, inputs_shape) -> tuple:
        return (self.rows, inputs_shape[-1])

    def get_config(self) -> dict:
        config = {"rows": self.rows, "normalized": self.normalized, "epsilon": self.epsilon}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("encoders")
class DisentangledAttention(PositionedAttention):
    """Attention with token-token, token-distance and distance-token scores."""

    rows = np.zeros(0, int)  # rows of the distance table, from `-reach` to `reach`

    def attend(self, hidden, table, projections, attention_mask, training) -> tf.Tensor:
        """Return the attention output `[batch, length, width]`.

        Args:
            hidden: hidden states `[batch, length, width]`.
            table: distance embeddings `[rows, width]`.
            projections: "c2p" and "p2c" -> kernel and bias for the distances.
            attention_mask: `[batch, 1, length]`, 1 for visible tokens; None: all are visible.
            training: whether dropout applies to attention weights.
        """
        query, key, value = self.project(hidden)
        query *= self._inverse_sqrt_key_dim / math.sqrt(1 + len(projections))
        length, reach = static_length(query), len(self.rows) // 2
        distances = tf.clip_by_value(tf.range(1 - length, length), -reach, reach)
        # The distance from j to i is minus that from i to j, so the table is read backward.
        used = tf.gather(table, tf.gather(tf.constant(self.rows, "int32"), reach - distances))
        scores = tf.matmul(query, key, transpose_b=True)
        if CONTENT_TO_POSITION in projections:
            keys = self.project_distances(used, *projections[CONTENT_TO_POSITION])
            scores += by_distance(tf.matmul(query, keys, transpose_b=True))
        if POSITION_TO_CONTENT in projections:
            queries = self.project_distances(used[::-1], *projections[POSITION_TO_CONTENT])
            key *= self._inverse_sqrt_key_dim / math.sqrt(1 + len(projections))
            scores += by_distance_back(tf.matmul(key, queries, transpose_b=True))
        if attention_mask is not None:
            scores = hide(scores, attention_mask[:, None])
        weights = self._dropout_layer(tf.nn.softmax(scores), training=training)
        return self._output_dense(tf.transpose(weights @ value, (0, 2, 1, 3)))

    def project_distances(self, used, kernel, bias) -> tf.Tensor:
        """Return keys or queries of distances, `[heads, distances, size]`."""
        width, heads, size = self._query_dense.kernel.shape
        projected = used @ tf.reshape(kernel, (width, -1)) + tf.reshape(bias, (-1,))
        return tf.transpose(tf.reshape(projected, (-1, heads, size)), (1, 0, 2))


@keras.saving.register_keras_serializable("encoders")
class DebertaLayer(PostNormLayer):
    """BERT's layer with `DisentangledAttention`.

    Args:
        buckets: as in `bucket_rows`, and so `reach`.
        kinds: of distance scores, "c2p" and "p2c".
        shared: whether distances use the projections of tokens.
        **kwargs: as in `PostNormLayer`.
    """

    attention_class = DisentangledAttention

    def __init__(
        self, *, buckets: int, reach: int, kinds: list[str], shared: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.buckets, self.reach, self.kinds, self.shared = buckets, reach, list(kinds), shared

    def build(self, inputs_shape) -> None:
        super().build(inputs_shape)
        self._self_attention_layer.rows = bucket_rows(self.buckets, self.reach)
        self.distance_denses = {}
        for kind in () if self.shared else self.kinds:
            dense = keras.layers.Dense(
                inputs_shape[-1],
                kernel_initializer=initializer(),
                dtype=self.dtype_policy,
                name=f"distance_{kind}",
            )
            dense.build(inputs_shape)
            self.distance_denses[kind] = dense

    def projections(self) -> dict[str, tuple]:
        """Return the kernel and the bias that project distances."""
        attention = self._self_attention_layer
        shared = {
            CONTENT_TO_POSITION: attention._key_dense,
            POSITION_TO_CONTENT: attention._query_dense,
        }
        denses = {kind: self.distance_denses.get(kind, shared[kind]) for kind in self.kinds}
        return {kind: (dense.kernel, dense.bias) for kind, dense in denses.items()}

    @compiled_alone
    def call(self, inputs, table=None, padding_mask=None, training=None) -> tf.Tensor:
        """Return hidden states `[batch, length, width]` of inputs of that shape.

        Args:
            inputs: outputs of the layer below.
            table: distance embeddings `[rows, width]`.
            padding_mask: `[batch, length]`, 0 for padding.
            training: whether dropout is on.
        """
        mask = None if padding_mask is None else padding_mask[:, None]
        attention = self._self_attention_layer
        attended = attention.attend(inputs, table, self.projections(), mask, training)
        return self.feed_forward(inputs, attended, training)

    def get_config(self) -> dict:
        own = {"buckets": self.buckets, "reach": self.reach}
        return {**super().get_config(), **own, "kinds": self.kinds, "shared": self.shared}


@keras.saving.register_keras_serializable("encoders")
class Neighbours(keras.layers.Layer):
    """The convolution in parallel to the lowest layer, in the largest v2 models.

    Args:
        size: width in tokens.
        groups: of features.
        activation: as in `activation_function`.
        epsilon: of the normalization.
        dropout: of the output of the convolution.
        **kwargs: as in `keras.layers.Layer`.
    """

    def __init__(
        self, size: int, groups: int, activation: str, epsilon: float, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.size, self.groups, self.activation = size, groups, activation
        self.epsilon, self.rate = epsilon, dropout
        self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy, name="norm")
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, embedded_shape, hidden_shape, padding_mask_shape) -> None:
        self.convolution = keras.layers.Conv1D(
            hidden_shape[-1],
            self.size,
            padding="same",
            groups=self.groups,
            kernel_initializer=initializer(),
            dtype=self.dtype_policy,
            name="convolution",
        )
        self.convolution.build(embedded_shape)
        self.norm.build(hidden_shape)

    def call(self, embedded, hidden, padding_mask, training=None) -> tf.Tensor:
        """Return the sum of hidden states and convolution, `[batch, length, width]`.

        Args:
            embedded: inputs of the lowest Transformer layer.
            hidden: outputs of that layer.
            padding_mask: `[batch, length]`, 0 for padding.
            training: whether dropout is on.
        """
        real = tf.cast(padding_mask, embedded.dtype)[..., None]
        seen = self.dropout(self.convolution(embedded * real) * real, training=training)
        return self.norm(hidden + activation_function(self.activation)(seen))

    def compute_output_shape(self, embedded_shape, hidden_shape, padding_mask_shape) -> tuple:
        return hidden_shape

    def get_config(self) -> dict:
        config = {"size": self.size, "groups": self.groups, "activation": self.activation}
        config |= {"epsilon": self.epsilon, "dropout": self.rate}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("encoders")
class Deberta(PostNormEncoder):
    """DeBERTa; `layer_options` are those of `DebertaLayer`.

    Distance embeddings have no dropout, because its mask would belong to no example.

    Args:
        normalized: whether distance embeddings are normalized.
        convolution: `size`, `groups` and `activation` of `Neighbours`; None: no convolution.
        **kwargs: as in `PostNormEncoder`.
    """

    layer_class = DebertaLayer

    def __init__(
        self, *, normalized: bool, convolution: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.normalized = normalized
        self.convolution = dict(convolution) if convolution else None
        super().__init__(**kwargs)

    def transform(self, hidden: keras.KerasTensor, mask: keras.KerasTensor) -> keras.KerasTensor:
        reach, dtype = self.layer_options["reach"], self.embeddings_dropout.dtype_policy
        rows = 2 * (self.layer_options["buckets"] or reach)
        self.relative_embedding = DistanceTable(
            rows,
            self.normalized,
            self.layer_norm_epsilon,
            dtype=dtype,
            name="relative_embedding",
        )
        embedded, table = hidden, self.relative_embedding(hidden)
        for number, layer in enumerate(self.transformer_layers):
            hidden = layer(hidden, table=table, padding_mask=mask)
            if self.convolution and not number:
                self.neighbours = Neighbours(
                    **self.convolution,
                    epsilon=self.layer_norm_epsilon,
                    dropout=self.dropout,
                    dtype=dtype,
                    name="neighbours",
                )
                hidden = self.neighbours(embedded, hidden, mask)
        return hidden

    def get_config(self) -> dict:
        own = {"normalized": self.normalized, "convolution": self.convolution}
        return {**super().get_config(), **own}


def make_deberta(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return DeBERTa with its weights; with distances it reads texts of any length.

    Raises:
        InputError: an unpublished variant.
    """
    fields.values = {"relative_attention": False, **fields.values}
    fields.values.setdefault("layer_norm_eps", 1e-7)
    fields.values.setdefault("type_vocab_size", 0)
    fields.require("relative_attention", True)
    fields.require("embedding_size", fields.number("hidden_size"))
    fields.require("attention_head_size", None)
    options = post_norm_options(fields, weights, settings)
    has_positions = bool(fields.get("position_biased_input", True))
    if not has_positions:
        options["max_sequence_length"] = None
    reach = fields.get("max_relative_positions", -1)
    reach = reach if reach > 0 else fields.number("max_position_embeddings", 512)
    encoder = Deberta(
        **options,
        has_positions=has_positions,
        normalized="layer_norm" in fields.get("norm_rel_ebd", "none").lower(),
        convolution=read_convolution(fields),
        layer_options={
            "buckets": max(0, fields.get("position_buckets", -1)),
            "reach": reach,
            "kinds": read_kinds(fields),
            "shared": bool(fields.get("share_att_key", False)),
        },
    )
    weights.rename(*OF_DEBERTA)
    assign_deberta(encoder, weights)
    return encoder


def read_kinds(fields: Fields) -> list[str]:
    """Return the kinds of distance scores: a list in config.json, or separated by |."""
    kinds = fields.get("pos_att_type", [])
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    kinds = [kind.strip().lower() for kind in kinds]
    known = [CONTENT_TO_POSITION, POSITION_TO_CONTENT]
    if set(kinds) - set(known):
        raise InputError(
            f"{fields.path}: pos_att_type = {kinds}, and only {known} are computed here: choose an "
            "encoder that was trained so."
        )
    return [kind for kind in known if kind in kinds]


def read_convolution(fields: Fields) -> dict[str, Any] | None:
    """Return the arguments of `Neighbours`; None: no convolution."""
    size = fields.number("conv_kernel_size", 0)
    groups, activation = fields.number("conv_groups", 1), fields.activation("conv_act", "tanh")
    return {"size": size, "groups": groups, "activation": activation} if size else None


def assign_deberta(encoder: Deberta, weights: Weights) -> None:
    """Assign the weights of DeBERTa."""
    assign_embeddings(encoder, weights)
    table = encoder.relative_embedding
    weights.assign(table.embeddings, "encoder.rel_embeddings.weight")
    if encoder.normalized:
        assign_pair(weights, table.norm, "encoder.LayerNorm")
    if encoder.convolution:
        kernel, bias = encoder.neighbours.convolution.weights
        name = "encoder.conv.conv.weight"
        weights.put(kernel, weights.take(name).T, name)
        weights.assign(bias, "encoder.conv.conv.bias")
        assign_pair(weights, encoder.neighbours.norm, "encoder.conv.LayerNorm")
    names = {CONTENT_TO_POSITION: "pos_key_proj", POSITION_TO_CONTENT: "pos_query_proj"}
    for number, layer in enumerate(encoder.transformer_layers):
        assign_layer(layer, weights, f"encoder.layer.{number}")
        for kind, dense in layer.distance_denses.items():
            assign_pair(weights, dense, f"encoder.layer.{number}.attention.self.{names[kind]}")
