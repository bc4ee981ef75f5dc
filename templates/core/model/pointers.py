"""Layers of span and link scoring, the loss that trains them, and the best of their scores.

GlobalPointer scores every pair of tokens (i, j) once per head: "is this span an entity?",
"does a subject that starts at i have an object that starts at j?".

Training needs all scores: 200 heads over 512 tokens are 200 MiB a text. `best_spans` goes through
them head by head, and `score_pairs` computes those that are asked for.
"""

from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf
from keras import ops

from core.model.transformer import MASKED

# What a pointer makes its scores of: queries and keys `[batch, heads or 1, length, size]`; where
# all heads share these, also what each adds to a pair that starts, or ends, at a token
# `[batch, heads, length]`.
Parts = tuple[tf.Tensor, ...]


@keras.saving.register_keras_serializable("common")
class RotaryPositionEmbedding(keras.layers.Layer):
    """Rotate each pair of features by an angle that grows with the position (RoPE).

    The product of two rotated vectors depends on the distance of their positions alone:
    RoPE(q, i) . RoPE(k, j) = Re(sum_n q_n conj(k_n) e^{i (i - j) t_n}), t_n = base^(-2n/size).
    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864.

    Args:
        base: the slowest rotation has a period of about `2 pi base` positions.
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


class Pointer(keras.layers.Layer):
    """What both pointers share: RoPE and the mask of impossible pairs.

    Args:
        heads: number of scores for each pair of tokens.
        head_size: size of the query and key vectors, even.
        rotary: rotate queries and keys, so that the score knows the distance.
        spans: the pairs are spans: j < i is impossible. False for links.
    """

    def __init__(
        self, heads: int, head_size: int = 64, rotary: bool = True, spans: bool = True, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        if head_size % 2:
            raise ValueError(f"head_size must be even, got {head_size}.")
        self.heads = heads
        self.head_size = head_size
        self.rotary = rotary
        self.spans = spans
        self.rotation = RotaryPositionEmbedding(dtype=self.dtype_policy, name="rotation")
        # It has no weights, and may never be called: `fit` on replicas fails on unbuilt layers.
        self.rotation.built = True

    def dense(self, units: int, name: str, inputs_shape: tuple) -> keras.layers.Dense:
        """Return a dense layer that is part of this one, built for inputs of a shape."""
        options = {"dtype": self.dtype_policy, "name": name}
        layer = keras.layers.Dense(units, kernel_initializer="lecun_normal", **options)
        layer.build(inputs_shape)
        return layer

    def call(self, inputs, mask, whole: bool = True) -> keras.KerasTensor | Parts:
        """Score `inputs` `[batch, length, width]` under the padding mask `[batch, length]`.

        Returns:
            Scores `[batch, heads, length, length]`; where they are not wanted `whole`, their parts.
        """
        parts = self.project(inputs)
        return mask_impossible(score(*parts), mask, self.spans) if whole else parts

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "heads": self.heads,
            "head_size": self.head_size,
            "rotary": self.rotary,
            "spans": self.spans,
        }


@keras.saving.register_keras_serializable("common")
class GlobalPointer(Pointer):
    """Score every pair of tokens with a query and a key of its own for each head.

    s_h(i, j) = RoPE(q_h,i) . RoPE(k_h,j) / sqrt(head_size).
    Source: Su et al. 2022, https://arxiv.org/abs/2208.03054.
    """

    def build(self, inputs_shape, mask_shape=None) -> None:
        self.projection = self.dense(2 * self.heads * self.head_size, "projection", inputs_shape)

    def project(self, inputs) -> Parts:
        """Return queries and keys."""
        length = ops.shape(inputs)[1]
        projected = ops.reshape(
            self.projection(inputs), (-1, length, 2 * self.heads, self.head_size)
        )
        projected = ops.reshape(
            ops.transpose(projected, (0, 2, 1, 3)), (-1, length, self.head_size)
        )
        if self.rotary:
            projected = self.rotation(projected)
        projected = ops.reshape(projected, (-1, 2, self.heads, length, self.head_size))
        return projected[:, 0], projected[:, 1]


@keras.saving.register_keras_serializable("common")
class EfficientGlobalPointer(Pointer):
    """Score every pair of tokens with one shared query and key, and two scores a head.

    s_h(i, j) = RoPE(q_i) . RoPE(k_j) / sqrt(head_size) + a_h(i) + b_h(j): "where are spans?" is
    asked once, "of which type?" costs 2 features a head instead of 2 head_size.
    Source: Su 2022, https://kexue.fm/archives/8877.
    """

    def build(self, inputs_shape, mask_shape=None) -> None:
        self.projection = self.dense(2 * self.head_size, "projection", inputs_shape)
        self.types = self.dense(2 * self.heads, "types", (*inputs_shape[:-1], 2 * self.head_size))

    def project(self, inputs) -> Parts:
        """Return queries, keys, and what starts and ends add."""
        projected = self.projection(inputs)
        queries, keys = projected[..., : self.head_size], projected[..., self.head_size :]
        if self.rotary:
            queries, keys = self.rotation(queries), self.rotation(keys)
        types = ops.transpose(self.types(projected), (0, 2, 1))
        return queries[:, None], keys[:, None], types[:, : self.heads], types[:, self.heads :]


def score(queries, keys, starts=None, ends=None) -> keras.KerasTensor:
    """Return the scores `[..., queries, keys]` of all pairs, of `Parts`."""
    scores = ops.matmul(queries, ops.swapaxes(keys, -1, -2)) / queries.shape[-1] ** 0.5
    if starts is not None:
        # The small sum first: oneDNN is slow to add one after the other to the scores in a loop.
        scores = scores + (starts[..., :, None] + ends[..., None, :])
    # Float32: their exponentials are summed over length^2 pairs.
    return ops.cast(scores, "float32")


def mask_impossible(scores, mask, spans: bool) -> keras.KerasTensor:
    """Set the scores `[batch, heads, length, length]` of impossible pairs to `MASKED`."""
    mask = ops.cast(mask, "bool")
    possible = ops.logical_and(mask[:, None, :, None], mask[:, None, None, :])
    if spans:
        positions = ops.arange(ops.shape(scores)[-1])
        possible = ops.logical_and(possible, positions[:, None] <= positions[None, :])
    return ops.where(possible, scores, MASKED)


def best_spans(models: Sequence[Parts], mask, most: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best spans of each head, from the mean of the scores of several models.

    Args:
        models: the parts of a pointer in each of them.
        mask: `[batch, length]`, 1 for tokens.
        most: spans of a head, unless there are fewer pairs.

    Returns:
        Scores `[batch, heads, spans]`, the highest first, and as numbers in the grids of all heads,
        (head x length + start) x length + end, the spans; of equal ones the first is the better.
    """
    length = ops.shape(mask)[1]
    cells = length * length

    def best_of(head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        own = [[tf.gather(p, [head % p.shape[1]], axis=1) for p in parts] for parts in models]
        scores = mask_impossible(mean(score(*parts) for parts in own), mask, spans=True)
        values, places = tf.math.top_k(tf.reshape(scores, (-1, cells)), tf.minimum(most, cells))
        return values, head * cells + places

    # One after the other: so many grids are held at once.
    heads = tf.range(max(part.shape[1] for part in models[0]))
    kinds = (tf.float32, tf.int32)
    values, places = tf.map_fn(best_of, heads, parallel_iterations=1, fn_output_signature=kinds)
    return tf.transpose(values, (1, 0, 2)), tf.transpose(places, (1, 0, 2))


def score_pairs(models: Sequence[Parts], heads, rows, columns) -> tf.Tensor:
    """Return the scores of some pairs of tokens alone, the mean over several models.

    Args:
        models: the parts of a pointer in each of them.
        heads: which head is asked; it has the shape of `rows` and `columns`, or is broadcast.
        rows: tokens `[batch, ..., rows]` that stand in front; `columns` those behind.

    Returns:
        `[batch, ..., rows, columns]`.
    """
    # Of the parts every second one, keys and ends, belongs to the tokens behind.
    places = (rows, columns)
    return mean(
        score(*(pick(part, heads, places[number % 2]) for number, part in enumerate(parts)))
        for parts in models
    )


def pick(values, heads, tokens) -> tf.Tensor:
    """Return values `[batch, heads or 1, length, ...]` at tokens `[batch, ..., n]` of heads."""
    count, length = ops.shape(values)[1:3]
    flat = tf.reshape(values, (-1, count * length, *values.shape[3:]))
    return tf.gather(flat, tokens + heads * length if count > 1 else tokens, batch_dims=1)


def mean(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
    """Return the mean of tensors of one shape."""
    every = list(tensors)
    return sum(every[1:], every[0]) / len(every)


@keras.saving.register_keras_serializable("common")
class SparseMultilabelLoss(keras.layers.Layer):
    """Loss of a pointer against the few pairs that are true; its output is the loss `[batch]`.

    For each head: log(1 + sum_{false} e^s) + log(1 + sum_{true} e^-s), so that every true pair
    is pushed above 0 and every false one below, without a class weight.
    Source: Su 2020, https://kexue.fm/archives/7359; circle loss, https://arxiv.org/abs/2002.10857.

    The true pairs are taken out of the first sum by overwriting their scores. The usual sparse form
    subtracts them afterwards, log(sum_all - sum_true), which cancels for confident hits and counts
    a pair that is listed twice two times.
    """

    def call(self, scores, labels, head_weight=None) -> keras.KerasTensor:
        """Return the sum over heads of the loss of each example.

        Args:
            scores: `[batch, heads, length, length]`, impossible pairs far below zero.
            labels: `[batch, heads, pairs, 2]` integers (i, j); -1 fills the unused ones. A pair
                is listed once for each head.
            head_weight: `[batch, heads]`, 0 for a head that says nothing here. None: all count.
        """
        scores = ops.cast(scores, "float32")
        heads, pairs, length = labels.shape[1], ops.shape(labels)[2], ops.shape(scores)[-1]
        rows = ops.shape(labels)[0] * heads
        scores = ops.reshape(scores, (rows, length * length))
        labels = ops.reshape(labels, (rows, pairs, 2))
        used = labels[..., 0] >= 0
        index = ops.where(used, labels[..., 0] * length + labels[..., 1], 0)
        true_scores = ops.take_along_axis(scores, index, axis=1)
        row = ops.broadcast_to(ops.arange(rows)[:, None], (rows, pairs))
        is_true = ops.scatter(
            ops.reshape(ops.stack([row, index], axis=-1), (rows * pairs, 2)),
            ops.reshape(ops.cast(used, "float32"), (rows * pairs,)),
            (rows, length * length),
        )
        false_scores = ops.where(is_true > 0, MASKED, scores)
        loss = log_one_plus_sum_exp(false_scores)
        loss += log_one_plus_sum_exp(ops.where(used, -true_scores, MASKED))
        loss = ops.reshape(loss, (-1, heads))
        if head_weight is not None:
            loss *= ops.cast(head_weight, "float32")
        return ops.sum(loss, axis=1)


def log_one_plus_sum_exp(scores) -> keras.KerasTensor:
    """Return log(1 + sum e^scores) over the last axis, without overflow."""
    top = ops.maximum(ops.stop_gradient(ops.max(scores, axis=-1)), 0.0)
    return top + ops.log(ops.exp(-top) + ops.sum(ops.exp(scores - top[..., None]), axis=-1))
