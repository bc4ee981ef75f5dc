"""The layers of pretrained writers: one kind, with options for the differences of families.

Each layer computes in two ways: `call` reads whole sequences, as in training; `step` adds one token
to each hypothesis, using cached keys and values.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from core.fast.layer_programs import compiled_alone
from core.fast.transformer import (
    MASKED,
    LayerNormalization,
    exact_gelu_function,
    tanh_gelu_function,
)

INITIAL_DEVIATION = 0.02  # of weights that no file has
ACTIVATIONS: dict[str, Callable] = {
    "gelu": exact_gelu_function,
    "gelu_tanh": tanh_gelu_function,
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}
Pair = tuple[tf.Tensor, tf.Tensor]


def find_positions(mask: Any, examples: Any = None) -> Any:
    """Return the position of each token `[batch, length]`; padding is not counted.

    Args:
        mask: `[batch, length]`, 0 for padding.
        examples: of the same shape: the example of a token in its row; positions count within an
            example. None: one example per row.
    """
    mask = ops.cast(mask, "int32")
    if examples is None:
        return ops.maximum(ops.cumsum(mask, axis=1) - 1, 0)
    places = ops.arange(ops.shape(mask)[1])
    before = ops.logical_and(share_example(examples), places[None, :] < places[:, None])
    return ops.sum(ops.cast(before, "int32"), axis=2) * mask


def share_example(examples: Any) -> Any:
    """Return which tokens share an example `[batch, length, length]`."""
    return examples[:, :, None] == examples[:, None, :]


def see_before(positions: Any, mask: Any, reach: int = 0, examples: Any = None) -> Any:
    """Return the causal attention mask `[batch, query, key]`.

    Args:
        positions: `[batch, length]`.
        mask: of the same shape, 0 for padding anywhere.
        reach: maximum number of visible tokens, including the token itself; 0: all.
        examples: as in `find_positions`; no token sees another example.
    """
    distance = positions[:, :, None] - positions[:, None, :]
    visible = ops.logical_and(distance >= 0, ops.cast(mask, "bool")[:, None, :])
    if examples is not None:
        visible = ops.logical_and(visible, share_example(examples))
    return ops.logical_and(visible, distance < reach) if reach else visible


def dense(outputs: int, bias: bool, name: str, dtype: Any) -> keras.layers.Dense:
    """Return a dense layer."""
    return keras.layers.Dense(
        outputs,
        use_bias=bias,
        kernel_initializer=keras.initializers.RandomNormal(stddev=INITIAL_DEVIATION),
        dtype=dtype,
        name=name,
    )


@keras.saving.register_keras_serializable("writers")
class RootMeanSquare(keras.layers.Layer):
    """Root-mean-square normalization: gamma x / sqrt(mean of x^2), computed in float32.

    Source: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467.

    Args:
        epsilon: added to the mean.
        offset: added to gamma; Gemma 3 has 1, and its files store gamma minus 1.
    """

    def __init__(self, epsilon: float = 1e-6, offset: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon, self.offset = epsilon, offset

    def build(self, inputs_shape: tuple) -> None:
        first = keras.initializers.Constant(1.0 - self.offset)
        self.gamma = self.add_weight((inputs_shape[-1],), initializer=first, name="gamma")

    def call(self, inputs) -> tf.Tensor:
        """Return `[..., width]` of inputs `[..., width]`."""
        inputs = tf.cast(inputs, tf.float32)
        mean = tf.reduce_mean(tf.square(inputs), axis=-1, keepdims=True)
        normal = inputs * tf.math.rsqrt(mean + self.epsilon)
        gamma = tf.cast(self.gamma, tf.float32) + self.offset
        return tf.cast(normal * gamma, self.compute_dtype)

    def get_config(self) -> dict:
        return {**super().get_config(), "epsilon": self.epsilon, "offset": self.offset}


def normalization(options: dict, name: str, dtype: Any) -> keras.layers.Layer:
    """Return a normalization; the options are `kind`, layer or rms, and its arguments."""
    kind = LayerNormalization if options["kind"] == "layer" else RootMeanSquare
    taken = {option: value for option, value in options.items() if option != "kind"}
    return kind(**taken, dtype=dtype, name=name)


def frequencies(size: int, theta: float, scaling: dict | None = None) -> np.ndarray:
    """Return the rotation per position of each pair of features, `[size / 2]`.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864. Llama 3.1 keeps short wavelengths and
    stretches long ones.

    Args:
        size: features of a head.
        theta: the base of the wavelengths.
        scaling: `rope_type` of config.json, default, linear or llama3, with its fields.
    """
    waves = theta ** -(np.arange(0, size, 2) / size)
    scaling = scaling or {}
    if scaling.get("rope_type") == "linear":
        waves = waves / scaling["factor"]
    if scaling.get("rope_type") == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = scaling["original_max_position_embeddings"] * waves / math.tau
        kept = np.clip((turns - low) / (high - low), 0, 1)
        waves = (1 - kept) * waves / scaling["factor"] + kept * waves
    return waves.astype(np.float32)


def rotate(vectors: tf.Tensor, positions: tf.Tensor, waves: np.ndarray) -> tf.Tensor:
    """Rotate vectors by their positions.

    Args:
        vectors: `[batch, length, heads, size]`.
        positions: `[batch, length]`.
        waves: from `frequencies`.
    """
    angles = tf.cast(positions, tf.float32)[..., None, None] * waves
    cosine, sine = tf.cos(angles), tf.sin(angles)
    first, second = tf.split(tf.cast(vectors, tf.float32), 2, axis=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return tf.cast(tf.concat(turned, axis=-1), vectors.dtype)


@keras.saving.register_keras_serializable("writers")
class Attention(keras.layers.Layer):
    """Attention with optional shared keys and values, and rotary positions.

    Source of groups: Ainslie et al. 2023, https://arxiv.org/abs/2305.13245.

    Args:
        width: of the hidden states.
        heads: of queries.
        groups: of keys and values; each serves heads / groups query heads.
        head_size: features of a head.
        bias: of queries, keys and values; `output_bias`: of the output.
        norm_epsilon: of a normalization of queries and keys; 0: none. `norm_offset`: its offset.
        theta: base of the rotation; 0: none.
        scaling: of the rotation, see `frequencies`.
        scale: of the scores; 0: 1 / sqrt(head_size).
        dropout: of the weights.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        groups: int,
        head_size: int,
        bias: bool = False,
        output_bias: bool = False,
        norm_epsilon: float = 0.0,
        norm_offset: float = 0.0,
        theta: float = 0.0,
        scaling: dict | None = None,
        scale: float = 0.0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options = {
            "width": width,
            "heads": heads,
            "groups": groups,
            "head_size": head_size,
            "bias": bias,
            "output_bias": output_bias,
            "norm_epsilon": norm_epsilon,
            "norm_offset": norm_offset,
            "theta": theta,
            "scaling": scaling,
            "scale": scale,
            "dropout": dropout,
        }
        self.heads, self.groups, self.head_size = heads, groups, head_size
        self.scale = scale or head_size**-0.5
        self.waves = frequencies(head_size, theta, scaling) if theta else None
        dtype = self.dtype_policy
        self.query = dense(heads * head_size, bias, "query", dtype)
        self.key = dense(groups * head_size, bias, "key", dtype)
        self.value = dense(groups * head_size, bias, "value", dtype)
        self.output_dense = dense(width, output_bias, "output", dtype)
        self.query_norm = self.key_norm = None
        if norm_epsilon:
            norm = {"kind": "rms", "epsilon": norm_epsilon, "offset": norm_offset}
            self.query_norm = normalization(norm, "query_norm", dtype)
            self.key_norm = normalization(norm, "key_norm", dtype)
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, hidden_shape: tuple) -> None:
        for layer in (self.query, self.key, self.value):
            layer.build(hidden_shape)
        self.output_dense.build((*hidden_shape[:-1], self.heads * self.head_size))
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.build((*hidden_shape[:-1], self.heads, self.head_size))

    def queries(self, hidden: tf.Tensor, positions: tf.Tensor | None) -> tf.Tensor:
        """Return queries `[batch, length, groups, heads / groups, size]`."""
        asked = self.split(self.query(hidden), self.heads, self.query_norm, positions)
        asked *= tf.cast(self.scale, asked.dtype)
        shape = tf.shape(asked)
        return tf.reshape(asked, (shape[0], shape[1], self.groups, -1, self.head_size))

    def pair(self, hidden: tf.Tensor, positions: tf.Tensor | None) -> Pair:
        """Return keys and values, each `[batch, groups, length, size]`."""
        keys = self.split(self.key(hidden), self.groups, self.key_norm, positions)
        values = self.split(self.value(hidden), self.groups)
        return tf.transpose(keys, (0, 2, 1, 3)), tf.transpose(values, (0, 2, 1, 3))

    def split(
        self,
        projected: tf.Tensor,
        heads: int,
        norm: keras.layers.Layer | None = None,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return `[batch, length, heads, size]`, normalized and rotated if configured."""
        shape = tf.shape(projected)
        found = tf.reshape(projected, (shape[0], shape[1], heads, self.head_size))
        found = norm(found) if norm is not None else found
        if self.waves is None or positions is None:
            return found
        return rotate(found, positions, self.waves)

    def call(
        self, hidden, visible, positions=None, memory=None, bias=None, training=None
    ) -> tf.Tensor:
        """Return the attention output, `[batch, length, width]`.

        Args:
            hidden: `[batch, length, width]`, for the queries.
            visible: `[batch, length or 1, keys]`, true for visible tokens.
            positions: `[batch, length]`, of the rotation.
            memory: `[batch, keys, width]`, for keys and values; None: `hidden`.
            bias: of the scores, `[heads, length, keys]`.
            training: whether dropout applies to the weights.
        """
        pair = self.pair(hidden if memory is None else memory, positions)
        return self.gather(hidden, pair, visible, positions, bias, training)

    def gather(
        self,
        hidden: tf.Tensor,
        pair: Pair,
        visible: tf.Tensor,
        positions: tf.Tensor | None = None,
        bias: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Like `call`, for existing keys and values."""
        keys, values = pair
        asked = tf.transpose(self.queries(hidden, positions), (0, 2, 3, 1, 4))
        batch, groups, shared, length, size = tf.unstack(tf.shape(asked))
        scores = tf.matmul(
            tf.reshape(asked, (batch, groups, shared * length, size)), keys, transpose_b=True
        )
        scores = tf.reshape(scores, (batch, groups, shared, length, tf.shape(keys)[2]))
        scores = tf.cast(scores, tf.float32)
        if bias is not None:
            scores += tf.reshape(bias, (groups, shared, length, -1))
        scores = tf.where(visible[:, None, None], scores, MASKED)
        weights = tf.cast(tf.nn.softmax(scores), values.dtype)
        weights = self.dropout_layer(weights, training=training)
        found = tf.matmul(
            tf.reshape(weights, (batch, groups, shared * length, tf.shape(keys)[2])), values
        )
        found = tf.reshape(found, (batch, groups, shared, length, size))
        return self.join(tf.transpose(found, (0, 3, 1, 2, 4)))

    def join(self, found: tf.Tensor) -> tf.Tensor:
        """Return the output for `[batch, length, groups, heads / groups, size]`."""
        shape = tf.shape(found)
        width = self.heads * self.head_size
        return self.output_dense(tf.reshape(found, (shape[0], shape[1], width)))

    def step(
        self,
        hidden: tf.Tensor,
        positions: tf.Tensor | None = None,
        source: tuple | None = None,
        target: tuple | None = None,
    ) -> tf.Tensor:
        """Return the attention output of each hypothesis's last token, `[batch, beams, width]`.

        Args:
            hidden: `[batch, beams, width]`.
            positions: `[batch, beams]`.
            source: keys and values `[batch, groups, source, size]` shared by the beams, and their
                visibility `[batch, source]`.
            target: keys and values `[batch, beams, groups, target, size]`, their visibility
                `[target]`, and the bias of their scores `[heads, target]` or None.
        """
        asked = self.queries(hidden, positions)
        batch, beams, groups, shared, size = tf.unstack(tf.shape(asked))
        scores, read = [], 0
        if source is not None:
            read = tf.shape(source[0])[2]
            rows = tf.reshape(tf.transpose(asked, (0, 2, 1, 3, 4)), (batch, groups, -1, size))
            found = tf.matmul(rows, source[0], transpose_b=True)
            found = tf.where(source[2][:, None, None], tf.cast(found, tf.float32), MASKED)
            found = tf.reshape(found, (batch, groups, beams, shared, read))
            scores.append(tf.transpose(found, (0, 2, 1, 3, 4)))
        if target is not None:
            found = tf.cast(tf.matmul(asked, target[0], transpose_b=True), tf.float32)
            if target[3] is not None:
                found += tf.reshape(target[3], (groups, shared, -1))
            scores.append(tf.where(target[2], found, MASKED))
        # One softmax over both.
        weights = tf.cast(tf.nn.softmax(tf.concat(scores, axis=-1)), hidden.dtype)
        mixed = tf.zeros((), hidden.dtype)
        if source is not None:
            rows = tf.transpose(weights[..., :read], (0, 2, 1, 3, 4))
            rows = tf.matmul(tf.reshape(rows, (batch, groups, -1, read)), source[1])
            rows = tf.reshape(rows, (batch, groups, beams, shared, size))
            mixed += tf.transpose(rows, (0, 2, 1, 3, 4))
        if target is not None:
            mixed += tf.matmul(weights[..., read:], target[1])
        return self.join(mixed)

    def get_config(self) -> dict:
        return {**super().get_config(), **self.options}


@keras.saving.register_keras_serializable("writers")
class Block(keras.layers.Layer):
    """A Transformer layer: attention, optional cross-attention, and feed-forward.

    Args:
        width: of the hidden states.
        attention: options of `Attention`.
        inner: width of the feed-forward part.
        activation: its name in `ACTIVATIONS`.
        gated: whether the activation multiplies a second product.
        bias: of the feed-forward part.
        norm: options of `normalization`.
        norm_first: whether the input of each part is normalized, or the sum after it.
        after_norms: whether the output of each part is normalized too.
        cross: whether it has cross-attention to a source.
        reach: of attention, as in `see_before`.
        dropout: of the outputs of each part.
    """

    is_transformer_layer = True  # for the extra `recompute`

    def __init__(
        self,
        width: int,
        attention: dict,
        inner: int,
        activation: str,
        norm: dict,
        gated: bool = False,
        bias: bool = False,
        norm_first: bool = True,
        after_norms: bool = False,
        cross: bool = False,
        reach: int = 0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options = {
            "width": width,
            "attention": attention,
            "inner": inner,
            "activation": activation,
            "norm": norm,
            "gated": gated,
            "bias": bias,
            "norm_first": norm_first,
            "after_norms": after_norms,
            "cross": cross,
            "reach": reach,
            "dropout": dropout,
        }
        self.norm_first, self.reach = norm_first, reach
        self.activation = ACTIVATIONS[activation]
        dtype = self.dtype_policy
        self.attention = Attention(width, **attention, dtype=dtype, name="attention")
        self.cross: Any = None
        if cross:
            self.cross = Attention(width, **attention, dtype=dtype, name="cross")
        self.up = dense(inner, bias, "up", dtype)
        self.gate = dense(inner, bias, "gate", dtype) if gated else None
        self.down = dense(width, bias, "down", dtype)
        names = ["attention_norm", "feedforward_norm"]
        names += ["cross_norm"] if cross else []
        names += ["attention_after", "feedforward_after"] if after_norms else []
        self.norms = {name: normalization(norm, name, dtype) for name in names}
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

    def build(self, hidden_shape: tuple) -> None:
        parts = [self.attention, self.cross, self.up, self.gate, *self.norms.values()]
        for layer in filter(None, parts):
            layer.build(hidden_shape)
        self.down.build((*hidden_shape[:-1], self.up.units))

    @compiled_alone
    def call(
        self,
        hidden,
        visible,
        positions=None,
        bias=None,
        memory=None,
        memory_visible=None,
        training=None,
    ) -> tf.Tensor:
        """Return hidden states `[batch, length, width]`.

        Args:
            hidden: of the same shape.
            visible: as in `Attention`, as are `positions` and `bias`.
            memory: the source `[batch, source, width]`, for layers with `cross`.
            memory_visible: `[batch, 1, source]`.
            training: whether dropout is on.
        """

        def attend(states: tf.Tensor) -> tf.Tensor:
            return self.attention(states, visible, positions, bias=bias, training=training)

        def look(states: tf.Tensor) -> tf.Tensor:
            return self.cross(states, memory_visible, memory=memory, training=training)

        return self.compose(hidden, attend, look, training)

    def read(
        self,
        hidden: tf.Tensor,
        visible: tf.Tensor,
        positions: tf.Tensor | None = None,
        bias: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Pair]:
        """Return hidden states like `call`, and the keys and values of the attention."""
        pairs: list[Pair] = []

        def attend(states: tf.Tensor) -> tf.Tensor:
            pairs.append(self.attention.pair(states, positions))
            return self.attention.gather(states, pairs[0], visible, positions, bias, False)

        return self.compose(hidden, attend, attend, False), pairs[0]

    def compose(
        self, hidden: tf.Tensor, attend: Callable, look: Callable, training: bool | None = None
    ) -> tf.Tensor:
        """Return hidden states, computed with the given attention and cross-attention."""
        hidden = self.add(hidden, "attention", attend, training)
        if self.cross is not None:
            hidden = self.add(hidden, "cross", look, training)
        return self.add(hidden, "feedforward", self.feed, training)

    def add(
        self, hidden: tf.Tensor, part: str, compute: Callable, training: bool | None
    ) -> tf.Tensor:
        """Add the output of a part, with its normalizations."""
        norm, after = self.norms[f"{part}_norm"], self.norms.get(f"{part}_after")
        found = compute(norm(hidden) if self.norm_first else hidden)
        found = after(found) if after is not None else found
        hidden += self.dropout_layer(found, training=training)
        return hidden if self.norm_first else norm(hidden)

    def feed(self, hidden: tf.Tensor) -> tf.Tensor:
        """Return the feed-forward part of hidden states."""
        if self.gate is None:
            return self.down(self.activation(self.up(hidden)))
        return self.down(self.activation(self.gate(hidden)) * self.up(hidden))

    def step(
        self,
        hidden: tf.Tensor,
        cache: Pair,
        index: tf.Tensor,
        positions: tf.Tensor | None = None,
        bias: tf.Tensor | None = None,
        source: tuple | None = None,
        memory: tuple | None = None,
    ) -> tuple[tf.Tensor, Pair]:
        """Return hidden states `[batch, beams, width]` of one more token, and the longer cache.

        Args:
            hidden: of the same shape.
            cache: keys and values `[batch, beams, groups, target, size]`.
            index: place of the token in the cache.
            positions: `[batch, beams]`.
            bias: of the scores `[heads, target]`.
            source: tokens before the target, as in `Attention.step`.
            memory: keys and values for layers with `cross`, in the same form.
        """
        places = tf.range(tf.shape(cache[0])[3])
        visible = places <= index
        if self.reach:
            visible &= index - places < self.reach
        longer: list[Pair] = []

        def attend(states: tf.Tensor) -> tf.Tensor:
            # The beams take the place of tokens: `[batch, groups, beams, size]`.
            pair = self.attention.pair(states, positions)
            new = (tf.transpose(one, (0, 2, 1, 3))[:, :, :, None] for one in pair)
            start = (0, 0, 0, index, 0)
            keys, values = (
                ops.slice_update(old, start, one) for old, one in zip(cache, new, strict=True)
            )
            longer.append((keys, values))
            return self.attention.step(states, positions, source, (keys, values, visible, bias))

        hidden = self.compose(
            hidden, attend, lambda states: self.cross.step(states, source=memory), False
        )
        return hidden, longer[0]

    def get_config(self) -> dict:
        return {**super().get_config(), **self.options}


def empty_cache(block: Block, rows: tf.Tensor, beams: int, length: int) -> Pair:
    """Return zeros `[batch, beams, groups, length, size]` for the keys and values of a layer."""
    attention = block.attention
    shape = (rows, beams, attention.groups, length, attention.head_size)
    return tf.zeros(shape, block.compute_dtype), tf.zeros(shape, block.compute_dtype)


@keras.saving.register_keras_serializable("writers")
class RelativeBias(keras.layers.Layer):
    """The bias of two tokens' score by their distance.

    Small distances have their own buckets; larger ones share growing buckets. Source: Raffel et al.
    2020, https://arxiv.org/abs/1910.10683.

    Args:
        heads: of attention.
        buckets: of distances.
        farthest: larger distances share the last bucket.
        both_ways: whether later tokens are visible too.
    """

    def __init__(
        self, heads: int, buckets: int, farthest: int, both_ways: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.heads, self.buckets, self.farthest = heads, buckets, farthest
        self.both_ways = both_ways

    def build(self, queries_shape: tuple) -> None:
        initializer = keras.initializers.RandomNormal(stddev=INITIAL_DEVIATION)
        shape = (self.buckets, self.heads)
        self.table = self.add_weight(shape, initializer=initializer, name="table")

    def call(self, queries, keys) -> tf.Tensor:
        """Return `[heads, queries, keys]`, in float32, for places `[queries]` and `[keys]`."""
        distance = keys[None, :] - queries[:, None]
        buckets, first = self.buckets, tf.zeros_like(distance)
        if self.both_ways:
            buckets //= 2
            first = tf.cast(distance > 0, tf.int32) * buckets
            distance = tf.abs(distance)
        else:
            distance = -tf.minimum(distance, 0)
        exact = buckets // 2
        share = tf.math.log(tf.cast(tf.maximum(distance, 1), tf.float32) / exact)
        share = share / math.log(self.farthest / exact) * (buckets - exact)
        far = tf.minimum(exact + tf.cast(share, tf.int32), buckets - 1)
        places = first + tf.where(distance < exact, distance, far)
        return tf.transpose(tf.gather(tf.cast(self.table, tf.float32), places), (2, 0, 1))

    def compute_output_spec(self, queries, keys) -> keras.KerasTensor:
        return keras.KerasTensor((self.heads, *queries.shape, *keys.shape), dtype="float32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "heads": self.heads,
            "buckets": self.buckets,
            "farthest": self.farthest,
            "both_ways": self.both_ways,
        }
