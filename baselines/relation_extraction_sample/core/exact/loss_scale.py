"""The scale of the loss in float16, equal on any number of replicas.

Keras's `LossScaleOptimizer` fails under MirroredStrategy.
"""

import keras
import tensorflow as tf

FIRST_SCALE, LARGEST_SCALE, GROWTH_STEPS = 2.0**15, 2.0**24, 2000


class LossScale:
    """Scales the loss so that its gradient fits into float16, whose smallest number is 6e-8.

    The scale is halved after a step whose gradient is not finite, and doubled after 2,000 steps
    whose gradient is. A step that is not finite changes no weight and no moment; it counts for the
    learning rate and for dropout, so the next one is another step. All replicas see the same sum of
    gradients, so they agree. Source: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740.

    Args:
        optimizer: its checkpoint has the scale.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        def variable(name: str, value: float) -> keras.Variable:
            first = keras.initializers.Constant(value)
            options = {"aggregation": "only_first_replica", "name": name}
            return optimizer.add_variable((), first, dtype="float32", **options)

        self.scale = variable("loss_scale", FIRST_SCALE)
        self.finite = variable("finite_steps", 0.0)
        self.skipped = variable("skipped_steps", 0.0)

    def adapt(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Count a step, and change the scale; return whether all gradients are finite.

        Args:
            gradients: summed over replicas.
        """
        finite = tf.math.is_finite(tf.linalg.global_norm(gradients))
        steps = tf.where(finite, self.finite.value + 1, 0.0)
        grown = tf.where(steps >= GROWTH_STEPS, 2.0, 1.0)
        scale = self.scale.value * tf.where(finite, grown, 0.5)
        self.scale.assign(tf.clip_by_value(scale, 1.0, LARGEST_SCALE))
        self.finite.assign(tf.where(steps >= GROWTH_STEPS, 0.0, steps))
        self.skipped.assign(self.skipped.value + tf.where(finite, 0.0, 1.0))
        return finite
