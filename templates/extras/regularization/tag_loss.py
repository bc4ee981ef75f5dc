"""The loss of a CRF with smoothed labels, and as a focal loss."""

from typing import TypeAlias

import keras
from keras import ops

from core.fast.transformer import MASKED
from extras.regularization.changed_loss import ChangedLoss, focal

Tensor: TypeAlias = keras.KerasTensor
LEAST = 1e-30  # too small to change a sum in float32


class TagLoss(ChangedLoss):
    """-log p of the tags of a text, with the focal factor, and a share of all legal sequences.

    That share is the mean of -log p over all sequences of tags that BIO permits. Without
    transitions it is the usual smoothing of each token. Source of the smoothing: Szegedy et al.
    2016, https://arxiv.org/abs/1512.00567.
    """

    smooths = True

    def call(self, emissions: Tensor, transitions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the loss `[batch]` of emissions `[batch, length, tags]`.

        Args:
            emissions: scores of the tags of each token.
            transitions: `[batch, tags + 1, tags]`, those of each tag after each other; the last
                row starts a text, and what BIO forbids is `MASKED`.
            tags: the true ones `[batch, length]`.
            mask: `[batch, length]`, 1 for tokens, then 0 for padding.
        """
        emissions = ops.cast(emissions, "float32")
        cost = super().call(emissions, transitions, tags, mask)
        loss = focal(cost, self.gamma)
        if self.span_smoothing:
            # -log p of other tags differs by their score.
            scores = score_of(emissions, transitions, tags, mask)
            others = cost + scores - mean_score(emissions, transitions, mask)
            loss = (1 - self.span_smoothing) * loss + self.span_smoothing * others
        return loss


def score_of(emissions: Tensor, transitions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Return the score `[batch]` of one sequence of tags for each example."""
    count = emissions.shape[-1]
    tags = ops.cast(tags, "int32")
    before = ops.pad(tags[:, :-1], ((0, 0), (1, 0)), constant_values=count)
    flat = ops.reshape(transitions, (-1, (count + 1) * count))
    scores = ops.take_along_axis(flat, before * count + tags, axis=1)
    scores += ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]
    return ops.sum(scores * ops.cast(mask, "float32"), axis=1)


def mean_score(emissions: Tensor, transitions: Tensor, mask: Tensor) -> Tensor:
    """Return the mean score `[batch]` of all legal sequences of tags.

    Of the sequences that end with a tag, token by token: their share of all, and their mean score.
    """
    count = emissions.shape[-1]
    legal = ops.cast(transitions > MASKED / 2, "float32")
    passed = ops.where(legal > 0, transitions, 0.0)

    def step(before: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        emitted, real = token[:, :-1], token[:, -1:] > 0
        shares, means = before[:, :count], before[:, count:]
        whole = ops.maximum(ops.einsum("ba,bac->bc", shares, legal[:, :-1]), LEAST)
        scores = ops.einsum("ba,bac->bc", shares * means, legal[:, :-1])
        scores += ops.einsum("ba,bac->bc", shares, passed[:, :-1])
        own = [whole / ops.sum(whole, axis=-1, keepdims=True), emitted + scores / whole]
        after = ops.where(real, ops.concatenate(own, axis=-1), before)
        return after, after

    # One array: `ops.scan` can't loop over several arrays whose length is only known at run time.
    both = ops.concatenate([emissions, ops.cast(mask, emissions.dtype)[..., None]], axis=-1)
    shares = legal[:, -1] / ops.sum(legal[:, -1], axis=-1, keepdims=True)
    first = ops.concatenate([shares, emissions[:, 0] + passed[:, -1]], axis=-1)
    last, _ = ops.scan(step, first, ops.transpose(both[:, 1:], (1, 0, 2)))
    return ops.sum(last[:, :count] * last[:, count:], axis=-1)
