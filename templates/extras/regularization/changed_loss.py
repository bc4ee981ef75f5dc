"""What loss layers have in common whose class was replaced, and the focal loss."""

from typing import TypeAlias

import keras
from keras import ops

Tensor: TypeAlias = keras.KerasTensor
# The least 1 - p in float32: a power below 1 has no slope at 0.
LEAST = 1e-7


def focal(costs: Tensor, gamma: float) -> Tensor:
    """Return (1 - p)^gamma (-log p) of costs -log p: what is already right counts less.

    Source: Lin et al. 2017, https://arxiv.org/abs/1708.02002, without its weights of classes.

    Args:
        costs: of any shape, in float32.
        gamma: 0 leaves the costs as they are.

    Example: an answer of probability 0.9 counts a hundredth of what it did.

    >>> cost = ops.convert_to_tensor(0.1053605)  # -log 0.9
    >>> round(float(focal(cost, 2.0) / cost), 4)
    0.01
    """
    if not gamma:
        return costs
    return ops.power(ops.maximum(-ops.expm1(-costs), LEAST), gamma) * costs


class ChangedLoss(keras.layers.Layer):
    """A loss layer whose class was replaced, with what `change_losses` sets.

    Attributes:
        gamma: of the focal loss.
        span_smoothing: share of a label that its neighbours, or other tags, get.
        distance: how far these neighbours are, in tokens.
    """

    smooths = False  # whether `span_smoothing` has a meaning
    gamma = 0.0
    span_smoothing = 0.0
    distance = 1
