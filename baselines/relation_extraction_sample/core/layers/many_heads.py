"""The loss of many heads on a CPU, one head on each core.

96 heads over 512 tokens have 25 million scores a text. TensorFlow writes and reads all of them some
twenty times in a step: for each addition, mask, exponential and gradient. A CPU spends more time on
that than on the encoder. The scores of one head stay in its cache. So a step goes through the heads
once, and has loss and gradient of each before its core computes the scores of another one. On a GPU
the operations of all heads at once are fewer.
"""

from collections.abc import Callable
from typing import TypeAlias

import keras
import tensorflow as tf

from core.fast.one_pass import AT_ONCE, pays, sum_powers
from core.fast.transformer import MASKED
from core.layers.pointers import SparseMultilabelLoss, cells_of, possible_pairs

Tensor: TypeAlias = tf.Tensor


@keras.saving.register_keras_serializable("common")
class ManyHeadsLoss(SparseMultilabelLoss):
    """`SparseMultilabelLoss`, on a CPU faster for many heads that share queries and keys.

    Example:
    >>> scores, labels = np.full((1, 1, 2, 2), -5.0), np.array([[[[0, 1]]]])
    >>> round(float(ManyHeadsLoss()(scores, labels)[0]), 3)
    5.027
    """

    def call(
        self, scores, labels, head_weight=None, parts=None, padding_mask=None, spans=True
    ) -> Tensor:
        """Return the loss of each example `[batch]`, as `SparseMultilabelLoss` does.

        Args:
            scores, labels, head_weight: its arguments.
            parts: of the scores, from the layer of `POINTERS`; other pointers than "efficient" have
                2, and gain nothing.
            padding_mask, spans: what `PairScores` made the scores with.
        """
        if not (len(parts or ()) == 4 and parts[0].shape[1] == 1 and pays(labels.shape[1])):
            return super().call(scores, labels, head_weight)
        possible, weight = possible_pairs(padding_mask, spans), head_weight
        weight = tf.ones(tf.shape(labels)[:2]) if weight is None else tf.cast(weight, "float32")

        @tf.custom_gradient
        def compute(*parts) -> tuple[Tensor, Callable]:
            loss, gradients = learn_heads(parts, possible, labels, weight)

            def backward(upstream) -> list[Tensor]:
                shapes = ([-1] + [1] * (one.shape.rank - 1) for one in gradients)
                pairs = zip(gradients, shapes, strict=True)
                return [one * tf.reshape(upstream, shape) for one, shape in pairs]

            return loss, backward

        return compute(*(tf.cast(part, "float32") for part in parts))


def learn_heads(parts, possible, labels, weight) -> tuple[Tensor, list[Tensor]]:
    """Return the weighted loss of each example, and its gradient for each part.

    Args:
        parts: of the scores, of heads that share queries and keys.
        possible: `[batch, length, length]`, false for pairs that are none.
        labels: `[batch, heads, pairs, 2]` integers (i, j); -1 fills the unused ones.
        weight: `[batch, heads]`.
    """
    queries, keys, starts, ends = parts
    heads, size = labels.shape[1], queries.shape[-1]
    products = tf.matmul(queries * size**-0.5, keys, transpose_b=True)[:, 0]
    products = tf.where(possible, products, MASKED)

    def learn_head(head, loss, all_slopes, of_starts, of_ends) -> tuple:
        scores = products + starts[:, head, :, None] + ends[:, head, None, :]
        own_loss, slopes = learn_pairs(scores, labels[:, head], weight[:, head])
        of_starts = of_starts.write(head, tf.reduce_sum(slopes, axis=2))
        of_ends = of_ends.write(head, tf.reduce_sum(slopes, axis=1))
        return head + 1, loss + own_loss, all_slopes + slopes, of_starts, of_ends

    rows = [tf.TensorArray("float32", heads, element_shape=[None, None]) for _ in range(2)]
    first = (0, tf.zeros(tf.shape(labels)[:1]), tf.zeros_like(products), *rows)
    _, loss, slopes, *rows = tf.while_loop(
        lambda head, *_: head < heads, learn_head, first, parallel_iterations=AT_ONCE
    )
    slopes = slopes[:, None] * size**-0.5
    of_queries = tf.matmul(slopes, keys)
    of_keys = tf.matmul(slopes, queries, transpose_a=True)
    return loss, [of_queries, of_keys, *(tf.transpose(row.stack(), [1, 0, 2]) for row in rows)]


def learn_pairs(scores: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted loss `[batch]` of one head, and its gradient for the scores.

    Args:
        scores: `[batch, length, length]`, `MASKED` where a pair is impossible.
        labels: `[batch, pairs, 2]`; -1 fills the unused ones.
        weight: `[batch]`.
    """
    true_scores, others = SparseMultilabelLoss.split_pairs(scores, labels)
    false_loss, powers, total = sum_powers(tf.reshape(others, (tf.shape(scores)[0], -1)))
    slopes = tf.reshape(powers * (weight / total)[:, None], tf.shape(scores))
    true_loss, powers, total = sum_powers(-true_scores)
    of_true = powers * (weight / total)[:, None]
    slopes = tf.tensor_scatter_nd_sub(slopes, cells_of(labels), of_true)
    return weight * (false_loss + true_loss), slopes
