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
        # The last update is above 0 too: it would be a step for nothing.
        done = (step - self.warm_up_steps) / (self.steps - self.warm_up_steps + 1)
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
class AdamW(keras.optimizers.Adam):
    """AdamW with one gradient norm for all replicas and a faster rate for new layers.

    Keras clips each replica's own gradient before the sum, which changes the result with the
    number of replicas; here the sum is clipped. Clipping needs gradients without repeated indices:
    `TrainingModel` hands them over dense. Moments and weights are updated in one pass over memory,
    where Keras makes a dozen: embeddings are long.
    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.

    Args:
        learning_rate: a rate or a schedule, for the encoder.
        decay: w -= rate decay w, besides the step of Adam.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        encoder_variables: paths of the variables that follow `learning_rate`.
        head_factor: all other variables learn so many times faster.
        no_decay: parts of the names of variables that don't decay.
        **kwargs: as in `keras.optimizers.Adam`.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        decay: float = 0.01,
        clip_norm: float = 1.0,
        encoder_variables: tuple[str, ...] = (),
        head_factor: float = 1.0,
        # Biases and the scales of normalisations have no reason to be near zero.
        no_decay: tuple[str, ...] = ("bias", "gamma", "beta"),
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.decay = decay
        self.clip_norm = clip_norm
        self.encoder_variables = frozenset(encoder_variables)
        self.head_factor = head_factor
        self.no_decay = tuple(no_decay)

    def build(self, variables):
        super().build(variables)
        # `update_step` sees TensorFlow variables, whose names are not unique: compare identities.
        self._fast = {
            self._var_key(variable)
            for variable in variables
            if variable.path not in self.encoder_variables
        }
        self._decaying = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_decay)
        }

    def _all_reduce_sum_gradients(self, grads_and_vars):
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if not self.clip_norm:
            return reduced
        gradients, variables = zip(*reduced, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return list(zip(gradients, variables, strict=True))

    def update_step(self, gradient, variable, learning_rate):
        key, index = self._var_key(variable), self._get_variable_index(variable)
        rate = tf.cast(learning_rate, variable.dtype)
        if key in self._fast:
            rate = rate * self.head_factor
        if self.decay and key in self._decaying:
            variable.assign_sub(variable * (rate * self.decay))
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "decay": self.decay,
            "clip_norm": self.clip_norm,
            "encoder_variables": sorted(self.encoder_variables),
            "head_factor": self.head_factor,
            "no_decay": list(self.no_decay),
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
    return AdamW(
        WarmUpThenDecay(peak, steps, int(settings.warm_up * steps), settings.schedule),
        decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
        encoder_variables=tuple(variable.path for variable in encoder.variables),
        head_factor=settings.head_learning_rate / settings.learning_rate,
        epsilon=1e-6,  # as BERT was trained: the default 1e-7 lets rare rows jump
    )
