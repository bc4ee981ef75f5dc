"""Regularisation: a model that says the same of inputs a little different generalises better.

The embedding table is shifted, for tokens themselves can't be. What a shift depends on is summed
over all replicas first, so that it is the same on each, and that of the whole batch.
"""

from dataclasses import dataclass

import keras
import tensorflow as tf

from common.errors import InputError
from common.settings import CommonSettings


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
class Scores:
    """Logits that R-Drop compares.

    Attributes:
        logits: a tensor of the model `[batch, ...]`.
        kind: as in `divergence`.
        labels: name of the input `[batch, positions]` that is below 0 where nothing is predicted.
    """

    logits: keras.KerasTensor
    kind: str
    labels: str = ""


@dataclass(frozen=True)
class Regularization:
    """What a step does besides the gradient of the loss.

    Attributes:
        embeddings: the table that is shifted.
        adversary: the gradient is the mean of that here and that at the adversary's shift.
        gradient_penalty: weight of half the squared length of the gradient by the embedding table.
            Source: Su 2020, https://kexue.fm/archives/7234.
        r_drop: weight of how far two passes with other dropout are from each other.
            Source: Liang et al. 2021, https://arxiv.org/abs/2106.14448.
        scores: what these two passes are compared by.
    """

    embeddings: keras.Variable | None = None
    adversary: Adversary | None = None
    gradient_penalty: float = 0.0
    r_drop: float = 0.0
    scores: tuple[Scores, ...] = ()


PLAIN = Regularization()


def make_regularization(
    settings: CommonSettings, encoder: keras.Model, scores: list[Scores]
) -> Regularization:
    """Return what the settings say.

    Args:
        settings: `adversary`, `adversary_size`, `gradient_penalty`, `r_drop`.
        encoder: whose embeddings of tokens are shifted.
        scores: of the task.

    Raises:
        InputError: the embeddings of the encoder are not known.
    """
    embeddings = getattr(encoder, "token_embedding", None)
    if embeddings is None and (settings.adversary != "none" or settings.gradient_penalty):
        raise InputError(
            "adversary and gradient_penalty need an encoder with a token_embedding, which "
            f"{type(encoder).__name__} has not: set adversary = none and gradient_penalty = 0."
        )
    return Regularization(
        embeddings=None if embeddings is None else embeddings.embeddings,
        adversary=make_adversary(settings.adversary, settings.adversary_size),
        gradient_penalty=settings.gradient_penalty,
        r_drop=settings.r_drop,
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


def sum_over_replicas(tensor: tf.Tensor) -> tf.Tensor:
    """Return the sum of a tensor over all replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensor
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensor)


def random_states(model: keras.Model) -> list[keras.Variable]:
    """Return the states of the random generators of a model, which Keras calls no weights."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]
