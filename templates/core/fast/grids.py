"""Grids of the scores of all pairs of tokens, and the loss of large ones.

96 heads over 512 tokens have 25 million scores a text. TensorFlow writes and reads all of them some
twenty times in a step: for each addition, mask, exponential and gradient. A CPU spends more time on
that than on the encoder. The heads of `EfficientGlobalPointer` share one grid of products, and add
two vectors each. So here XLA computes each score where it is needed, and a step keeps one grid and
the sums of each head.
"""

import functools
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf
from keras import ops

from core.fast.one_pass import OPTIONS, has_gpu, log_one_plus_sum_exp
from core.fast.transformer import MASKED

Tensor: TypeAlias = tf.Tensor
# To compile two programs takes a second for each length of a batch. So many heads save it in some
# twenty steps.
MANY = 32


def mask_impossible(scores: Tensor, mask: Tensor, spans: bool) -> Tensor:
    """Set the scores `[batch, heads, length, length]` of impossible pairs to `MASKED`.

    Pairs of padding are impossible, and of spans those that end before they begin.
    """
    mask = ops.cast(mask, "bool")
    possible = ops.logical_and(mask[:, None, :, None], mask[:, None, None, :])
    if spans:
        positions = ops.arange(ops.shape(scores)[-1])
        possible = ops.logical_and(possible, positions[:, None] <= positions[None, :])
    return ops.where(possible, scores, MASKED)


def set_masked(scores: Tensor, index: Tensor, used: Tensor) -> Tensor:
    """Return scores of which some are far below zero, as if they weren't there.

    Args:
        scores: `[rows, cells]`.
        index: `[rows, pairs]`, the cells that are set.
        used: of the same shape, False for an index that means nothing: it adds 0 to its cell.
    """
    rows, pairs = ops.shape(index)
    row = ops.broadcast_to(ops.arange(rows)[:, None], (rows, pairs))
    counts = ops.scatter(
        ops.reshape(ops.stack([row, index], axis=-1), (rows * pairs, 2)),
        ops.reshape(ops.cast(used, "float32"), (rows * pairs,)),
        ops.shape(scores),
    )
    return ops.where(counts > 0, MASKED, scores)


def pays(heads: int) -> bool:
    """Return whether `loss_of_heads` is faster for so many heads than operations of TensorFlow."""
    return heads >= MANY and not has_gpu()


def loss_of_heads(parts: tuple[Tensor, ...], mask: Tensor, labels: Tensor, spans: bool) -> Tensor:
    """Return the loss of each head, `[batch, heads]`: what `SparseMultilabelLoss` says.

    Args:
        parts: of the scores, as `pair_scores` takes them.
        mask: `[batch, length]`, False for padding.
        labels: `[batch, heads, pairs, 2]` integers (i, j); -1 fills the unused ones.
        spans: j < i is impossible.
    """
    queries, keys, *added = (tf.cast(part, "float32") for part in parts)
    products = tf.matmul(queries * queries.shape[-1] ** -0.5, keys, transpose_b=True)
    batch, heads, pairs, _ = tf.unstack(tf.shape(labels))
    used, places = labels[..., 0] >= 0, tf.maximum(labels, 0)
    example = tf.broadcast_to(tf.range(batch)[:, None, None], (batch, heads, pairs))
    head = tf.broadcast_to(tf.range(heads)[None, :, None], (batch, heads, pairs))
    cells = tf.stack([example, head, places[..., 0], places[..., 1]], axis=-1)

    shape = tf.concat([[batch, heads], tf.shape(products)[2:]], axis=0)
    is_true = tf.scatter_nd(cells, tf.cast(used, "uint8"), shape)  # one byte, and not four
    loss = log_one_plus_sum_exp_of_false(products, *added, is_true, mask, spans)
    # The heads share a grid, or have one each.
    shared = tf.stack([example, head * 0, *tf.unstack(places, axis=-1)], axis=-1)
    true_scores = tf.gather_nd(products, shared if added else cells)
    for vector, place in zip(added, tf.unstack(places, axis=-1), strict=False):
        true_scores += tf.gather(vector, place, batch_dims=2)
    return loss + log_one_plus_sum_exp(tf.where(used, -true_scores, MASKED))


def log_one_plus_sum_exp_of_false(*inputs: Tensor) -> Tensor:
    """Return log(1 + sum e^score) over the possible pairs that aren't true, `[batch, heads]`.

    Args:
        *inputs: the products `[batch, heads or 1, length, length]`; `[batch, heads, length]` that
            is added for the first token of a pair, and the same for the last one, or neither; which
            pairs are true, `[batch, heads, length, length]`; the mask `[batch, length]`; whether
            pairs are spans.
    """
    *summed, is_true, mask, spans = inputs
    top_and_total, gradient = compile_for(bool(spans))

    @tf.custom_gradient
    def compute(*summed) -> tuple[Tensor, Callable]:
        top, total = top_and_total(summed, is_true, mask)

        def backward(upstream) -> list[Tensor]:
            return gradient(summed, is_true, mask, top, upstream / total)

        return top + tf.math.log(total), backward

    return compute(*summed)


@functools.cache
def compile_for(spans: bool) -> tuple[Callable, Callable]:
    """Return the programs of the sum and of its gradient; each shape has its own version."""

    def score(summed, is_true, mask) -> tuple[Tensor, Tensor]:
        """Return the scores, and which of them count."""
        products, *added = summed
        if added:
            products += added[0][..., None] + added[1][..., None, :]
        mask = tf.cast(mask, "bool")
        counts = mask[:, None, :, None] & mask[:, None, None, :] & (is_true == 0)
        if spans:
            positions = tf.range(tf.shape(products)[-1])
            counts &= positions[:, None] <= positions[None, :]
        return products, counts

    @tf.function(**OPTIONS)
    def top_and_total(summed, is_true, mask) -> tuple[Tensor, Tensor]:
        scores, counts = score(summed, is_true, mask)
        top = tf.maximum(tf.reduce_max(tf.where(counts, scores, MASKED), axis=(2, 3)), 0.0)
        powers = tf.where(counts, tf.exp(scores - top[..., None, None]), 0.0)
        return top, tf.exp(-top) + tf.reduce_sum(powers, axis=(2, 3))

    @tf.function(**OPTIONS)
    def gradient(summed, is_true, mask, top, factor) -> list[Tensor]:
        scores, counts = score(summed, is_true, mask)
        powers = tf.exp(scores - top[..., None, None]) * factor[..., None, None]
        slopes = tf.where(counts, powers, 0.0)
        if len(summed) == 1:
            return [slopes]
        shared = tf.reduce_sum(slopes, axis=1, keepdims=True)
        return [shared, tf.reduce_sum(slopes, axis=3), tf.reduce_sum(slopes, axis=2)]

    return top_and_total, gradient
