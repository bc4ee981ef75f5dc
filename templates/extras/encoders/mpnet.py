"""MPNet: BERT whose attention scores also depend on the distance of two tokens, as in T5.

Sources: Song et al. 2020, https://arxiv.org/abs/2004.09297; Raffel et al. 2020,
https://arxiv.org/abs/1910.10683, section 2.1.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.base.settings import CoreSettings
from core.fast.layer_programs import compiled_alone
from core.fast.transformer import hide
from extras.encoders.bert import POSITIONS
from extras.encoders.fields import GELU, Fields
from extras.encoders.postnorm import (
    PositionedAttention,
    PostNormEncoder,
    PostNormLayer,
    assign_all,
    distances,
    initializer,
    static_length,
)
from extras.encoders.weights import Weights

BIASES = "encoder.relative_attention_bias.weight"
BUCKETS, FARTHEST = 32, 128  # of all published models; the code of its authors knows no others
OF_MPNET = (
    (r"\.attention\.attn\.q\.", ".attention.self.query."),
    (r"\.attention\.attn\.k\.", ".attention.self.key."),
    (r"\.attention\.attn\.v\.", ".attention.self.value."),
    (r"\.attention\.attn\.o\.", ".attention.output.dense."),
    (r"\.attention\.LayerNorm\.", ".attention.output.LayerNorm."),
)


def distance_buckets() -> np.ndarray:
    """Return the bucket of each distance from `-FARTHEST` to `FARTHEST`, by place of the key.

    The first half of the buckets is for keys before the query, or at it. Small distances have
    their own buckets; larger ones share buckets on a logarithmic scale, from -2 for example:

    >>> distance_buckets()[FARTHEST - 2 : FARTHEST + 3].tolist()
    [2, 1, 0, 17, 18]
    """
    places = np.arange(-FARTHEST, FARTHEST + 1)
    half, exact, far = BUCKETS // 2, BUCKETS // 4, np.abs(places)
    scale = np.float32(math.log(FARTHEST / exact))
    share = np.log(np.maximum(far, exact).astype(np.float32) / np.float32(exact)) / scale
    shared = np.minimum(exact + (share * (half - exact)).astype(int), half - 1)
    return half * (places > 0) + np.where(far < exact, far, shared)


@keras.saving.register_keras_serializable("encoders")
class DistanceBiases(keras.layers.Layer):
    """What the distance of two tokens adds to their attention score, the same in all layers.

    Args:
        heads: of attention.
        **kwargs: as in `keras.layers.Layer`.
    """

    def __init__(self, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, inputs_shape) -> None:
        shape = (BUCKETS, self.heads)
        self.embeddings = self.add_weight(shape=shape, initializer=initializer(), name="embeddings")

    def call(self, hidden) -> tf.Tensor:
        """Return `[heads, length, length]` for hidden states `[batch, length, width]`."""
        places = tf.clip_by_value(distances(static_length(hidden)), -FARTHEST, FARTHEST)
        buckets = tf.gather(tf.constant(distance_buckets(), "int32"), places + FARTHEST)
        # A product instead of a lookup: its gradient is one too, with the same sums on any device.
        table = tf.cast(tf.convert_to_tensor(self.embeddings), self.compute_dtype)
        chosen = tf.one_hot(buckets, BUCKETS, dtype=table.dtype)
        return tf.einsum("ijb,bh->hij", chosen, table)

    def compute_output_shape(self, inputs_shape) -> tuple:
        return (self.heads, inputs_shape[1], inputs_shape[1])

    def get_config(self) -> dict:
        return {**super().get_config(), "heads": self.heads}


@keras.saving.register_keras_serializable("encoders")
class BiasedAttention(PositionedAttention):
    """Attention whose scores have a number added for each pair of tokens."""

    def attend(self, hidden, biases, attention_mask, training) -> tf.Tensor:
        """Return the attention output `[batch, length, width]`.

        Args:
            hidden: hidden states `[batch, length, width]`.
            biases: of `DistanceBiases`, `[heads, length, length]`.
            attention_mask: `[batch, 1, length]`, 1 for visible tokens; None: all are visible.
            training: whether dropout applies to attention weights.
        """
        query, key, value = self.project(hidden)
        scores = self.score(query * self._inverse_sqrt_key_dim, key) + biases
        if attention_mask is not None:
            scores = hide(scores, attention_mask[:, None])
        weights = self._dropout_layer(tf.nn.softmax(scores), training=training)
        return self._output_dense(tf.transpose(self.gather(weights, value), (0, 2, 1, 3)))


@keras.saving.register_keras_serializable("encoders")
class MPNetLayer(PostNormLayer):
    """BERT's layer with `BiasedAttention`."""

    attention_class = BiasedAttention

    @compiled_alone
    def call(self, inputs, biases=None, padding_mask=None, training=None) -> tf.Tensor:
        """Return hidden states `[batch, length, width]` of inputs of that shape.

        Args:
            inputs: outputs of the layer below.
            biases: of `DistanceBiases`, `[heads, length, length]`.
            padding_mask: `[batch, length]`, 0 for padding.
            training: whether dropout is on.
        """
        mask = None if padding_mask is None else padding_mask[:, None]
        attended = self._self_attention_layer.attend(inputs, biases, mask, training)
        return self.feed_forward(inputs, attended, training)


@keras.saving.register_keras_serializable("encoders")
class MPNet(PostNormEncoder):
    """MPNet: arguments as in `PostNormEncoder`."""

    layer_class = MPNetLayer

    def transform(self, hidden: keras.KerasTensor, mask: keras.KerasTensor) -> keras.KerasTensor:
        self.relative_embedding = DistanceBiases(
            self.num_heads, dtype=self.embeddings_dropout.dtype_policy, name="relative_embedding"
        )
        biases = self.relative_embedding(hidden)
        for layer in self.transformer_layers:
            hidden = layer(hidden, biases=biases, padding_mask=mask)
        return hidden


def make_mpnet(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return MPNet with its weights; its first positions are for padding, as RoBERTa's are."""
    fields.require("relative_attention_num_buckets", BUCKETS)
    fields.require("hidden_act", "gelu")
    fields.asked.add("type_vocab_size")  # an MPNet has no segments, whatever it says
    first_position = fields.number("pad_token_id", 1) + 1
    encoder = MPNet(
        **fields.sizes(settings),
        max_sequence_length=fields.number("max_position_embeddings", 512) - first_position,
        num_segments=0,
        activation=GELU,
        layer_norm_epsilon=fields.real("layer_norm_eps", 1e-12),
        origin={"model_type": "mpnet", "first_position": first_position},
    )
    weights.change(POSITIONS, lambda table: table[first_position:])
    weights.rename(*OF_MPNET)
    assign_mpnet(encoder, weights)
    return encoder


def assign_mpnet(encoder: MPNet, weights: Weights) -> None:
    """Assign the weights of MPNet, with BERT's names of the parts of a layer."""
    assign_all(encoder, weights)
    weights.assign(encoder.relative_embedding.embeddings, BIASES)
