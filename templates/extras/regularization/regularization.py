"""Regularization: a model that answers slightly different inputs alike generalizes better.

The code shifts the embedding table, because tokens can't be shifted. Everything that a shift
depends on is first summed over all replicas, so each replica has the shift of the whole batch.
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
    """Finds the shift of the embedding table, of limited length, that raises the loss most.

    PGD takes several steps along the gradient, each projected back to the limit; FGM takes one.
    Sources: Miyato et al. 2017, https://arxiv.org/abs/1605.07725, and Madry et al. 2018,
    https://arxiv.org/abs/1706.06083.

    Attributes:
        size: maximum length of the shift.
        steps: passes through the model, besides the pass for the gradient.
        step_size: length of a step.
    """

    size: float
    steps: int
    step_size: float

    def move(self, shift: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """Return the shift after one more step."""
        shift += self.step_size * tf.math.divide_no_nan(gradient, tf.norm(gradient))
        return tf.clip_by_norm(shift, self.size)


@dataclass(frozen=True)
class WeightAdversary:
    """Finds the shift of each kernel that raises the loss most (adversarial weight perturbation).

    Source: Wu et al. 2020, https://arxiv.org/abs/2004.05884: the shift of a kernel is limited by a
    part of the kernel's own length.

    Attributes:
        kernels: the shifted variables: those of the encoder with two axes or more, but not its
            embeddings, of which most rows have no gradient.
        part: length of a shift, divided by that of the kernel.
    """

    kernels: tuple[Any, ...]
    part: float

    def shift(self, kernel: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """Return the shift of a kernel along its gradient."""
        return self.part * tf.norm(kernel) * tf.math.divide_no_nan(gradient, tf.norm(gradient))


@dataclass(frozen=True)
class VirtualAdversary:
    """Finds the shift of the embedding table that changes the answers most, without labels.

    The first step follows noise that depends only on seed and update. The second follows the
    gradient of the change there. The training reduces the change after both steps. Sources: Miyato
    et al. 2018, https://arxiv.org/abs/1704.03976; symmetric, as in Jiang et al. 2020,
    https://arxiv.org/abs/1911.03437.

    Attributes:
        weight: of that change.
        size: length of the shift.
        seed: of the noise.
    """

    weight: float
    size: float
    seed: int

    def first_shift(self, shape: tuple[int, ...], update: tf.Tensor) -> tf.Tensor:
        """Return noise of a tenth of the size, small because the change is quadratic there."""
        seed = tf.stack([self.seed, tf.cast(update, tf.int32)])
        return 0.1 * self.reach(tf.random.stateless_normal(shape, seed))

    def reach(self, direction: tf.Tensor) -> tf.Tensor:
        """Return the shift of full size in a direction."""
        return self.size * tf.math.divide_no_nan(direction, tf.norm(direction))


@dataclass(frozen=True)
class Regularization:
    """The additional parts of a step's gradient.

    Attributes:
        embeddings: the shifted table.
        adversary: the gradient is the mean of the plain one and that at the adversary's shift.
        weight_adversary: the same with a shift of kernels.
        gradient_penalty: weight of half the squared length of the gradient by the embedding table.
            Source: Su 2020, https://kexue.fm/archives/7234.
        r_drop: weight of the divergence of two passes with different dropout.
            Source: Liang et al. 2021, https://arxiv.org/abs/2106.14448.
        virtual_adversary: the same for unlabelled examples without and with a shift.
        scores: the outputs by which two passes are compared.
    """

    embeddings: Any = None
    adversary: Adversary | None = None
    weight_adversary: WeightAdversary | None = None
    gradient_penalty: float = 0.0
    r_drop: float = 0.0
    virtual_adversary: VirtualAdversary | None = None
    scores: tuple[Logits, ...] = ()


def make_regularization(
    settings: Settings, encoder: keras.Model, scores: Sequence[Logits]
) -> Regularization | None:
    """Return the regularization of the settings; None: off.

    Args:
        settings: `seed`, and the table `regularization`.
        encoder: its token embeddings are shifted.
        scores: of the task; empty: its answers depend on each other.

    Raises:
        InputError: the encoder's embeddings are unknown or frozen, or there are no scores to
            compare.
    """
    table: Table = settings.regularization
    shifts_weights = table.adversary == "awp"
    attacks = table.adversary in ("fgm", "pgd")
    shifts = attacks or table.gradient_penalty or table.virtual_adversary
    if not shifts and not table.r_drop and not shifts_weights:
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
        weight_adversary=WeightAdversary(kernels_of(encoder), table.weight_shift)
        if shifts_weights
        else None,
        gradient_penalty=table.gradient_penalty,
        r_drop=table.r_drop,
        virtual_adversary=VirtualAdversary(
            table.virtual_adversary, table.adversary_size, settings.seed % 2**31
        )
        if table.virtual_adversary
        else None,
        scores=tuple(scores),
    )


def kernels_of(encoder: keras.Model) -> tuple[Any, ...]:
    """Return the trained kernels of an encoder: variables of two axes or more, no embeddings.

    Raises:
        InputError: it has none.
    """
    kernels = tuple(
        variable
        for variable in encoder.trainable_variables
        if len(variable.shape) > 1 and "embedding" not in variable.path
    )
    if not kernels:
        raise InputError(
            'adversary = "awp" shifts the kernels of the encoder, and none of them is trained: set '
            "adversary to another, or train more layers."
        )
    return kernels


def make_adversary(name: str, size: float) -> Adversary | None:
    """Return `fgm` or `pgd` with a maximum size of shifts; None for `none` and `awp`."""
    return {
        "none": None,
        "awp": None,
        "fgm": Adversary(size, 1, size),
        # The second step reaches the limit, and the third follows it.
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
        used: `[batch, positions]`, false if there is nothing to predict.
    """
    one, other = (tf.cast(logits, tf.float32) for logits in (one, other))
    if kind == "softmax_of_all":
        one, other = (tf.reshape(logits, (tf.shape(logits)[0], -1)) for logits in (one, other))
    probability = tf.nn.sigmoid if kind == "sigmoid" else tf.nn.softmax
    product = (probability(one) - probability(other)) * (one - other)
    if used is not None:
        product *= tf.cast(used, tf.float32)[..., None]
    return tf.reduce_sum(product, axis=list(range(1, len(product.shape))))
