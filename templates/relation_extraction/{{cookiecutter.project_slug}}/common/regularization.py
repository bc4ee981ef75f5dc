"""Regularisation: a model that says the same of inputs a little different generalises better.

The embedding table is shifted, for tokens themselves can't be. What a shift depends on is summed
over all replicas first, so that it is the same on each, and that of the whole batch.
"""

from dataclasses import dataclass

import keras
import tensorflow as tf

from common.settings import CommonSettings


@dataclass(frozen=True)
class Adversary:
    """Looks for the shift of the embedding table, of a length at the most, that the loss minds most.

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
class Regularization:
    """What a step does besides the gradient of the loss.

    Attributes:
        adversary: the gradient is the mean of that here and that at the adversary's shift.
        gradient_penalty: weight of half the squared length of the gradient by the embedding table.
            Source: Su 2020, https://kexue.fm/archives/7234.
        r_drop: weight of how far two passes with other dropout are from each other.
    """

    adversary: Adversary | None = None
    gradient_penalty: float = 0.0
    r_drop: float = 0.0


def make_regularization(settings: CommonSettings) -> Regularization:
    """Return what the settings `adversary`, `adversary_size`, `gradient_penalty`, `r_drop` say."""
    steps = {"none": 0, "fgm": 1, "pgd": PGD_STEPS}[settings.adversary]
    size = settings.adversary_size
    # In three steps the border can be reached, and gone along.
    adversary = Adversary(size, steps, size if steps == 1 else 0.5 * size) if steps else None
    return Regularization(adversary, settings.gradient_penalty, settings.r_drop)


PGD_STEPS = 3


def divergence(one: tf.Tensor, other: tf.Tensor, kind: str) -> tf.Tensor:
    """Return KL(p, q) + KL(q, p) of each example `[batch]`, summed over all its distributions.

    For the softmax p of logits a, and q of b, that is sum (p - q) (a - b): the two normalisations
    cancel out. For Bernoulli variables, p = sigmoid(a), it is the same sum.

    Args:
        one: logits `[batch, ...]`.
        other: logits of the same shape.
        kind: `sigmoid`; `softmax` over the last axis; `softmax_of_all` over all axes of an example.
    """
    one, other = (tf.cast(logits, tf.float32) for logits in (one, other))
    if kind == "softmax_of_all":
        one, other = (tf.reshape(logits, (tf.shape(logits)[0], -1)) for logits in (one, other))
    probability = tf.nn.sigmoid if kind == "sigmoid" else tf.nn.softmax
    product = (probability(one) - probability(other)) * (one - other)
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
