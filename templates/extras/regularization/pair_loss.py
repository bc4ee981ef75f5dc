"""The loss of pointers with smoothed labels, and as a focal loss.

With targets t from 0 to 1 the loss of a head is log(1 + sum (1 - t) e^s) + log(1 + sum t e^-s),
which is today's where each t is 0 or 1. Source: Su 2022, https://kexue.fm/archives/9064.

A pair that is true keeps a share of its label and gives the rest to its neighbours, spans whose
first or last token is a little elsewhere. Source: Zhu and Li 2022, boundary smoothing,
https://arxiv.org/abs/2204.12031. What a neighbour can't have, such as one that ends before it
begins, stays where it was.
"""

from typing import Any, TypeAlias

import keras
from keras import ops

from core.fast.transformer import MASKED
from extras.regularization.changed_loss import ChangedLoss, focal

Tensor: TypeAlias = keras.KerasTensor
TINY = 1e-30  # its logarithm is finite


class PairLoss(ChangedLoss):
    """The loss of a pointer, whose two terms of a head are -log p, each with the focal factor."""

    smooths = True

    def call(
        self, scores: Tensor, labels: Tensor, head_weight: Tensor | None = None, **_: Any
    ) -> Tensor:
        """Return the sum over heads of the loss of each example.

        Args:
            scores: `[batch, heads, length, length]`, impossible pairs far below zero.
            labels: `[batch, heads, pairs, 2]` integers (i, j); -1 fills the unused ones.
            head_weight: `[batch, heads]`, 0 for a head without annotation. None: all count.
        """
        scores = ops.cast(scores, "float32")
        heads, length = labels.shape[1], ops.shape(scores)[-1]
        rows = ops.shape(labels)[0] * heads
        pairs = ops.reshape(labels, (rows, -1, 2))
        read = getattr(self, "read_pairs", None)  # of extras/distillation: they have probabilities
        pairs, shares = read(pairs) if read else (pairs, 1.0)
        targets = true_pairs(pairs, shares, length)
        scores = ops.reshape(scores, (rows, length, length))
        if self.span_smoothing:
            possible = ops.cast(scores > MASKED / 2, "float32")
            targets = smooth(targets, possible, self.span_smoothing, self.distance)
        targets, scores = (ops.reshape(one, (rows, -1)) for one in (targets, scores))
        loss = focal(log_one_plus_weighted(scores, 1 - targets), self.gamma)
        loss += focal(log_one_plus_weighted(-scores, targets), self.gamma)
        loss = ops.reshape(loss, (-1, heads))
        if head_weight is not None:
            loss *= ops.cast(head_weight, "float32")
        return ops.sum(loss, axis=1)


def true_pairs(labels: Tensor, shares: Tensor | float, length: Tensor) -> Tensor:
    """Return `[rows, length, length]` with the share of each of the `labels` `[rows, pairs, 2]`."""
    rows, pairs = ops.shape(labels)[0], ops.shape(labels)[1]
    used = labels[..., 0] >= 0
    index = ops.where(used, labels[..., 0] * length + labels[..., 1], 0)
    row = ops.broadcast_to(ops.arange(rows)[:, None], (rows, pairs))
    counts = ops.scatter(
        ops.reshape(ops.stack([row, index], axis=-1), (rows * pairs, 2)),
        ops.reshape(ops.cast(used, "float32") * shares, (rows * pairs,)),
        (rows, length * length),
    )
    return ops.reshape(ops.minimum(counts, 1.0), (rows, length, length))


def smooth(targets: Tensor, possible: Tensor, share: float, distance: int) -> Tensor:
    """Return targets of which the neighbours of a true pair have their part.

    Each distance gets the same part of the share, and each of its places the same part of that.

    Args:
        targets: `[rows, length, length]` from 0 to 1.
        possible: of the same shape, 0 for pairs that can't be true.
        share: of a label, for all neighbours together.
        distance: the steps of both tokens together.
    """
    given = share_around(possible, share, distance)
    smoothed = targets * (1 - given) + possible * share_around(targets, share, distance)
    return ops.minimum(smoothed, 1.0)  # near several true pairs


def share_around(pairs: Tensor, share: float, distance: int) -> Tensor:
    """Return what each pair gets of those around it, `[rows, length, length]`."""
    length = ops.shape(pairs)[-1]
    padded = ops.pad(pairs, ((0, 0), (distance, distance), (distance, distance)))
    total = ops.zeros_like(pairs)
    for i in range(-distance, distance + 1):
        for j in range(abs(i) - distance, distance - abs(i) + 1):
            if steps := abs(i) + abs(j):
                first, last = distance + i, distance + j
                moved = padded[:, first : first + length, last : last + length]
                total += moved * (share / (distance * 4 * steps))
    return total


def log_one_plus_weighted(scores: Tensor, weights: Tensor) -> Tensor:
    """Return log(1 + sum of weights e^scores) over the last axis, without overflow."""
    logs = ops.where(weights > 0, scores + ops.log(ops.maximum(weights, TINY)), MASKED)
    top = ops.maximum(ops.stop_gradient(ops.max(logs, axis=-1)), 0.0)
    return top + ops.log(ops.exp(-top) + ops.sum(ops.exp(logs - top[..., None]), axis=-1))
