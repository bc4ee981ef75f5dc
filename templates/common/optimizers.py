"""AdamW as encoders are fine-tuned, and its learning-rate schedule."""

import math

import keras
import tensorflow as tf

from common.settings import CommonSettings


@keras.saving.register_keras_serializable("common")
class WarmUpThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rise linearly from 0 to the peak, then fall to 0, linearly or along a cosine.

    Args:
        peak: the highest learning rate.
        steps: updates of the whole training.
        warm_up_steps: updates until the peak; without a warm-up Adam's first moments are noise.
        shape: `linear`, `cosine` or `constant`.
    """

    def __init__(self, peak: float, steps: int, warm_up_steps: int, shape: str = "linear"):
        self.peak = peak
        self.steps = steps
        self.warm_up_steps = warm_up_steps
        self.shape = shape

    def __call__(self, step):
        step = tf.cast(step, "float32") + 1.0  # the first update is number 1: no step is lost at 0
        rise = step / max(self.warm_up_steps, 1)
        done = (step - self.warm_up_steps) / max(self.steps - self.warm_up_steps, 1)
        done = tf.clip_by_value(done, 0.0, 1.0)
        fall = {
            "linear": 1.0 - done,
            "cosine": 0.5 * (1.0 + tf.cos(math.pi * done)),
            "constant": tf.ones_like(done),
        }[self.shape]
        return self.peak * tf.minimum(rise, fall)

    def get_config(self):
        return {
            "peak": self.peak,
            "steps": self.steps,
            "warm_up_steps": self.warm_up_steps,
            "shape": self.shape,
        }


@keras.saving.register_keras_serializable("common")
class AdamW(keras.optimizers.AdamW):
    """AdamW with one gradient norm for all replicas and a faster rate for new layers.

    Keras clips each replica's own gradient before the sum, which changes the result with the
    number of replicas; here the sum is clipped. Clipping needs gradients without repeated indices:
    `TrainingModel` hands them over dense.
    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.

    Args:
        learning_rate: a rate or a schedule, for the encoder.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        encoder_variables: paths of the variables that follow `learning_rate`.
        head_factor: all other variables learn so many times faster.
        **kwargs: as in `keras.optimizers.AdamW`.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        clip_norm: float = 1.0,
        encoder_variables: tuple[str, ...] = (),
        head_factor: float = 1.0,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.clip_norm = clip_norm
        self.encoder_variables = frozenset(encoder_variables)
        self.head_factor = head_factor

    def build(self, variables):
        super().build(variables)
        # `update_step` sees TensorFlow variables, whose names are not unique: compare identities.
        self._fast = {
            self._var_key(variable)
            for variable in variables
            if variable.path not in self.encoder_variables
        }

    def _all_reduce_sum_gradients(self, grads_and_vars):
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if not self.clip_norm:
            return reduced
        gradients, variables = zip(*reduced, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return list(zip(gradients, variables, strict=True))

    def update_step(self, gradient, variable, learning_rate):
        if self.head_factor != 1.0 and self._var_key(variable) in self._fast:
            learning_rate = learning_rate * self.head_factor
        super().update_step(gradient, variable, learning_rate)

    def get_config(self):
        return {
            **super().get_config(),
            "clip_norm": self.clip_norm,
            "encoder_variables": sorted(self.encoder_variables),
            "head_factor": self.head_factor,
        }


def make_optimizer(
    settings: CommonSettings, encoder: keras.Model, steps: int, rate_factor: float = 1.0
) -> AdamW:
    """Return the optimizer of a whole training.

    Args:
        settings: `learning_rate`, `head_learning_rate`, `schedule`, `warm_up`, `weight_decay`,
            `clip_norm`.
        encoder: its variables learn at `learning_rate`, all others at `head_learning_rate`.
        steps: updates of the whole training.
        rate_factor: multiplies both rates.
    """
    peak = settings.learning_rate * rate_factor
    optimizer = AdamW(
        WarmUpThenDecay(peak, steps, int(settings.warm_up * steps), settings.schedule),
        weight_decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
        encoder_variables=tuple(variable.path for variable in encoder.variables),
        head_factor=settings.head_learning_rate / settings.learning_rate,
        epsilon=1e-6,  # as BERT was trained: the default 1e-7 lets rare rows jump
    )
    # Biases and the scales of normalisations have no reason to be near zero.
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
