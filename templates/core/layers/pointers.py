"""Scores of all pairs of tokens, which pairs are possible, and the loss that trains them."""

import keras
import tensorflow as tf
from keras import ops

from core.fast.one_pass import log_one_plus_sum_exp
from core.fast.transformer import MASKED  # -1e9
from core.layers.global_pointer import pair_scores


def possible_pairs(mask, spans: bool) -> keras.KerasTensor:
    """Return `[batch, length, length]`: true where a pair of tokens is possible; padding never is.

    Args:
        mask: `[batch, length]`, 0 for padding.
        spans: True: a pair is a span, so i <= j. False: a pair is a link, in any order.
    """
    mask = ops.cast(mask, "bool")
    possible = ops.logical_and(mask[:, :, None], mask[:, None, :])
    if spans:
        positions = ops.arange(ops.shape(mask)[1])
        possible = ops.logical_and(possible, positions[:, None] <= positions[None, :])
    return possible


def mask_impossible(scores, mask, spans: bool) -> keras.KerasTensor:
    """Set the float32 scores `[batch, heads, length, length]` of impossible pairs to `MASKED`."""
    return ops.where(possible_pairs(mask, spans)[:, None], scores, MASKED)


@keras.saving.register_keras_serializable("common")
class PairScores(keras.layers.Layer):
    """Scores `[batch, heads, length, length]` of all pairs, from the parts that pointers return.

    Args:
        spans: True: the pairs are spans, so i <= j. False: links, in any order.

    Example:
    >>> from core.layers.global_pointer import EfficientGlobalPointer
    >>> parts = EfficientGlobalPointer(heads=3)(np.ones((2, 5, 4)))
    >>> tuple(PairScores()(parts, np.ones((2, 5))).shape)
    (2, 3, 5, 5)
    """

    def __init__(self, spans: bool = True, **kwargs) -> None:
        super().__init__(**kwargs)
        self.spans = spans

    def call(self, parts, mask) -> keras.KerasTensor:
        """Score pairs under the padding mask `[batch, length]`."""
        return mask_impossible(pair_scores(*parts), mask, self.spans)

    def get_config(self) -> dict:
        return {**super().get_config(), "spans": self.spans}


@keras.saving.register_keras_serializable("common")
class SparseMultilabelLoss(keras.layers.Layer):
    """Loss of a pointer against the few pairs that are true; its output is the loss `[batch]`.

    For each head: log(1 + sum_{false} e^s) + log(1 + sum_{true} e^-s), so that every true pair
    is pushed above 0 and every false one below, without a class weight.
    Source: Su 2020, https://kexue.fm/archives/7359; circle loss, https://arxiv.org/abs/2002.10857.

    True pairs are left out before the first sum. The usual sparse form, log(sum_all - sum_true),
    subtracts two nearly equal numbers where a true pair scores high, and loses all precision.

    Example: of two tokens and one head, the pair (0, 1) is true.
    >>> scores = np.array([[[[-5.0, 5.0], [-5.0, -5.0]]]])
    >>> round(float(SparseMultilabelLoss()(scores, labels=np.array([[[[0, 1]]]]))[0]), 3)
    0.027
    """

    def call(self, scores, labels, head_weight=None) -> keras.KerasTensor:
        """Return the loss of each example `[batch]`, summed over heads.

        Args:
            scores: `[batch, heads, length, length]`, impossible pairs far below zero.
            labels: `[batch, heads, pairs, 2]` integers (i, j); -1 fills the unused ones. No
                pair is listed twice for a head.
            head_weight: `[batch, heads]`, 0 for a head without annotation; None: 1 for all.
        """
        heads, length = labels.shape[1], ops.shape(scores)[-1]
        # Below, a row is one head of one example: `[batch * heads, ...]`.
        scores = ops.reshape(ops.cast(scores, "float32"), (-1, length, length))
        labels = ops.reshape(labels, (-1, ops.shape(labels)[2], 2))
        true_scores, false_scores = self.split_pairs(scores, labels)
        false_loss = log_one_plus_sum_exp(ops.reshape(false_scores, (-1, length * length)))
        true_loss = log_one_plus_sum_exp(-true_scores)
        loss = ops.reshape(false_loss + true_loss, (-1, heads))
        if head_weight is not None:
            loss *= ops.cast(head_weight, "float32")
        return ops.sum(loss, axis=1)

    @staticmethod
    def split_pairs(scores: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the scores of the true pairs `[rows, pairs]`, and those of the false pairs.

        In the first, unused labels score 1e9, so their e^-s is 0. The second has the shape of
        `scores`; its true pairs are lowered by 1e9, so their e^s is 0.

        Args:
            scores: `[rows, length, length]`.
            labels: `[rows, pairs, 2]` integers (i, j); -1 fills the unused ones.
        """
        used, cells = labels[..., 0] >= 0, cells_of(labels)
        true_scores = tf.where(used, tf.gather_nd(scores, cells), -MASKED)
        return true_scores, tf.tensor_scatter_nd_add(scores, cells, tf.where(used, MASKED, 0.0))


def cells_of(labels: tf.Tensor) -> tf.Tensor:
    """Return (row, i, j) of each label; an unused one is (row, 0, 0), where 0 is added."""
    rows = tf.broadcast_to(tf.range(tf.shape(labels)[0])[:, None], tf.shape(labels)[:2])
    return tf.concat([rows[..., None], tf.cast(tf.maximum(labels, 0), "int32")], axis=-1)
