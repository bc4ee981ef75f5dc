"""Regularisation: a model that says the same of inputs a little different generalises better.

The embedding table is shifted, for tokens themselves can't be. What a shift depends on is summed
over all replicas first, so that it is the same on each, and that of the whole batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.step import Logits
from extras.regularization.settings import Settings, Table


@dataclass(frozen=True)
class Adversary:
    """Looks for the shift of the embedding table, of some length, that raises the loss most.

    PGD goes so many steps along the gradient, each step back into the ball; FGM goes one step.
    Sources: Miyato et al. 2017, https://arxiv.org/abs/1605.07725, and Madry et al. 2018,
    https://arxiv.org/abs/1706.06083.

    Attributes:
        size: the longest shift.
        steps: passes through the model, besides the one for the gradient itself.
        step_size: the length of a step.
    """

    size: float
    steps: int
    step_size: float

    def move(self, shift: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """Return the shift after one more step."""
        shift += self.step_size * tf.math.divide_no_nan(gradient, tf.norm(gradient))
        return tf.clip_by_norm(shift, self.size)


@dataclass(frozen=True)
class VirtualAdversary:
    """Looks for the shift of the embedding table that changes the answers most: it needs no labels.

    The first step is along noise that depends on seed and update alone, the second along the
    gradient of the change there; the change after that is made smaller by the training.
    Sources: Miyato et al. 2018, https://arxiv.org/abs/1704.03976; symmetric, as in Jiang et al.
    2020, https://arxiv.org/abs/1911.03437.

    Attributes:
        weight: of that change.
        size: length of the shift.
        seed: of the noise.
    """

    weight: float
    size: float
    seed: int

    def first_shift(self, shape: tuple[int, ...], update: tf.Tensor) -> tf.Tensor:
        """Return noise of a tenth of the size: small, for there the change is a parabola."""
        seed = tf.stack([self.seed, tf.cast(update, tf.int32)])
        return 0.1 * self.reach(tf.random.stateless_normal(shape, seed))

    def reach(self, direction: tf.Tensor) -> tf.Tensor:
        """Return the shift of full size in a direction."""
        return self.size * tf.math.divide_no_nan(direction, tf.norm(direction))


@dataclass(frozen=True)
class Regularization:
    """What the gradient of a step is besides that of the loss.

    Attributes:
        embeddings: the table that is shifted.
        adversary: the gradient is the mean of that here and that at the adversary's shift.
        gradient_penalty: weight of half the squared length of the gradient by the embedding table.
            Source: Su 2020, https://kexue.fm/archives/7234.
        r_drop: weight of how far two passes with other dropout are from each other.
            Source: Liang et al. 2021, https://arxiv.org/abs/2106.14448.
        virtual_adversary: the same for unlabelled examples without and with a shift.
        scores: what two passes are compared by.
    """

    embeddings: Any = None
    adversary: Adversary | None = None
    gradient_penalty: float = 0.0
    r_drop: float = 0.0
    virtual_adversary: VirtualAdversary | None = None
    scores: tuple[Logits, ...] = ()


def make_regularization(
    settings: Settings, encoder: keras.Model, scores: Sequence[Logits]
) -> Regularization | None:
    """Return what the settings say; None: nothing.

    Args:
        settings: `seed`, and the table `regularization`.
        encoder: whose embeddings of tokens are shifted.
        scores: of the task; none: its answers depend on each other.

    Raises:
        InputError: the embeddings of the encoder are not known, or frozen; or there are no scores
            to compare.
    """
    table: Table = settings.regularization
    shifts = table.adversary != "none" or table.gradient_penalty or table.virtual_adversary
    if not shifts and not table.r_drop:
        return None
    if not scores and (table.r_drop or table.virtual_adversary):
        raise InputError(
            "r_drop and virtual_adversary compare the answers to questions that are independent, "
            "which this model does not have: set both to 0, or choose another model."
        )
    embeddings = getattr(encoder, "token_embedding", None)
    if shifts and (embeddings is None or not embeddings.trainable):
        raise InputError(
            "adversary, virtual_adversary and gradient_penalty need an encoder with a "
            f"token_embedding that is trained, which {type(encoder).__name__} does not have: set "
            "adversary = none and the others to 0, or optimizers.frozen_layers = 0."
        )
    return Regularization(
        embeddings=None if embeddings is None else embeddings.embeddings,
        adversary=make_adversary(table.adversary, table.adversary_size),
        gradient_penalty=table.gradient_penalty,
        r_drop=table.r_drop,
        virtual_adversary=VirtualAdversary(
            table.virtual_adversary, table.adversary_size, settings.seed % 2**31
        )
        if table.virtual_adversary
        else None,
        scores=tuple(scores),
    )


def make_adversary(name: str, size: float) -> Adversary | None:
    """Return `fgm` or `pgd` with shifts of a size at the most; None for `none`."""
    return {
        "none": None,
        "fgm": Adversary(size, 1, size),
        # The border is reached with the second step, and the third goes along it.
        "pgd": Adversary(size, 3, 0.5 * size),
    }[name]


def divergence(
    one: tf.Tensor, other: tf.Tensor, kind: str, used: tf.Tensor | None = None
) -> tf.Tensor:
    """Return KL(p, q) + KL(q, p) of each example `[batch]`, summed over all its distributions.

    For the softmax p of logits a, and q of b, that is sum (p - q) (a - b): the two normalisations
    cancel out. For Bernoulli variables, p = sigmoid(a), it is the same sum.

    Args:
        one: logits `[batch, ...]`.
        other: logits of the same shape.
        kind: `sigmoid`; `softmax` over the last axis; `softmax_of_all` over all axes of an example.
        used: `[batch, positions]`, false where there is nothing to predict.
    """
    one, other = (tf.cast(logits, tf.float32) for logits in (one, other))
    if kind == "softmax_of_all":
        one, other = (tf.reshape(logits, (tf.shape(logits)[0], -1)) for logits in (one, other))
    probability = tf.nn.sigmoid if kind == "sigmoid" else tf.nn.softmax
    product = (probability(one) - probability(other)) * (one - other)
    if used is not None:
        product *= tf.cast(used, tf.float32)[..., None]
    return tf.reduce_sum(product, axis=list(range(1, len(product.shape))))
