"""Losses that compare the pairs of a batch with each other.

They see the pairs of the whole batch, over all replicas and micro-batches.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class PairBatch:
    """The pairs of a whole batch.

    Attributes:
        first: vectors of the first texts `[pairs, dimension]`, of length 1; `second`: of the
            second ones.
        grades: how well both texts belong together `[pairs]`, from 0 to 1.
        real: false for rows that only fill up the batch `[pairs]`.
        same_first: whether two pairs have the same first text `[pairs, pairs]`; `same_second`: the
            same second text.
    """

    first: tf.Tensor
    second: tf.Tensor
    grades: tf.Tensor
    real: tf.Tensor
    same_first: tf.Tensor
    same_second: tf.Tensor


def cosent_loss(batch: PairBatch, scale: float) -> tf.Tensor:
    """Return log(1 + sum exp(scale (cosine of j - cosine of i))) over all i with a better grade.

    Only the order of the grades matters. Source: Su 2022, https://kexue.fm/archives/8847.
    """
    scores = scale * tf.reduce_sum(batch.first * batch.second, axis=-1)
    wrong = scores[None, :] - scores[:, None]
    better = batch.grades[:, None] > batch.grades[None, :]
    counted = better & batch.real[:, None] & batch.real[None, :]
    wrong = tf.where(counted, wrong, wrong.dtype.min)
    return tf.reduce_logsumexp(
        tf.concat([tf.zeros(1, wrong.dtype), tf.reshape(wrong, [-1])], axis=0)
    )


def negatives_losses(batch: PairBatch, scale: float, symmetric: bool) -> tf.Tensor:
    """Return the cross-entropy of each pair with the best grade `[pairs]`, 0 for all others.

    The first text of a pair has to find its second text among those of all pairs. With `symmetric`
    half of the loss is that of the second text, which has to find the first one among the first
    texts of pairs of the best grade. Source: Henderson et al. 2017, https://arxiv.org/abs/1705.00652.
    """
    best = batch.real & (batch.grades >= 1)
    fits = batch.real & (batch.grades > 0)
    losses = search_losses(
        *(batch.first, batch.second, batch.same_first, batch.same_second, fits, batch.real, scale)
    )
    if symmetric:
        losses += search_losses(
            *(batch.second, batch.first, batch.same_second, batch.same_first, fits, best, scale)
        )
        losses /= 2
    return tf.where(best, losses, 0.0)


def search_losses(
    queries: tf.Tensor,
    answers: tf.Tensor,
    same_query: tf.Tensor,
    same_answer: tf.Tensor,
    fits: tf.Tensor,
    offered: tf.Tensor,
    scale: float,
) -> tf.Tensor:
    """Return the cross-entropy of each query and its own answer among the answers `[pairs]`.

    Args:
        queries: vectors `[pairs, dimension]`; `answers`: the same.
        same_query: whether two pairs have the same query `[pairs, pairs]`; `same_answer`: the same
            answer.
        fits: pairs with the right answer for their query `[pairs]`.
        offered: pairs whose answers are candidates `[pairs]`.
        scale: of the cosines.
    """
    scores = scale * tf.matmul(queries, answers, transpose_b=True)
    # An answer is no negative of a query that any pair of the batch says it is right for: another
    # answer of the same query, or a repeated text.
    right = tf.cast(same_query & fits[None, :], tf.float32)
    right = tf.matmul(right, tf.cast(same_answer, tf.float32)) > 0
    own = tf.eye(tf.shape(scores)[0], dtype=tf.bool)
    scores = tf.where(own | (offered[None, :] & ~right), scores, scores.dtype.min)
    return tf.reduce_logsumexp(scores, axis=-1) - tf.linalg.diag_part(scores)
