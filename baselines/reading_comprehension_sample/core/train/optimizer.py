"""AdamW as encoders are fine-tuned: rates by group, decay by name, one norm for all replicas."""

from typing import Any

import keras
import tensorflow as tf

from core.base.extras import ask
from core.base.settings import CoreSettings
from core.train.training import Models

EPSILON = 1e-6  # as BERT was trained: with Keras's 1e-7 rare rows jump


@keras.saving.register_keras_serializable("common")
class WarmUpThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rise linearly to the peak, then fall linearly; neither the first rate nor the last is 0.

    Args:
        peak: the highest learning rate.
        steps: updates of the whole training.
        warm_up_steps: updates until the peak; without, Adam's first steps rest on few gradients.
    """

    def __init__(self, peak: float, steps: int, warm_up_steps: int) -> None:
        self.peak = peak
        self.steps = steps
        self.warm_up_steps = warm_up_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, "float32") + 1.0  # the first update is number 1: no step is lost at 0
        rise = step / max(self.warm_up_steps, 1)
        # The last rate is above 0 too: with 0 the last update would change nothing.
        done = (step - self.warm_up_steps) / (self.steps - self.warm_up_steps + 1)
        fall = self.fall(tf.clip_by_value(done, 0.0, 1.0))
        return self.peak * tf.minimum(rise, fall)

    def fall(self, done: tf.Tensor) -> tf.Tensor:
        """Return the share of the peak when a share of the steps after the warm-up is done."""
        return 1.0 - done

    def get_config(self) -> dict:
        return {"peak": self.peak, "steps": self.steps, "warm_up_steps": self.warm_up_steps}


class FineTuning(keras.optimizers.Optimizer):
    """What fine-tuning adds to an optimizer of Keras; stands before it among the bases.

    Keras clips each replica's own gradient before the sum, which changes the result with the
    number of replicas; here the sum is clipped. Clipping needs gradients without repeated indices:
    `TrainingModel` hands them over dense.

    Args:
        learning_rate: a rate or a schedule.
        rates: path of a variable -> how many times as fast it learns; 1 where it is not named.
        decay: w -= rate decay w, besides the step of the optimizer.
        no_decay: parts of the names of variables that don't decay.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        **kwargs: as in the optimizer of Keras.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        rates: dict[str, float] | None = None,
        decay: float = 0.01,
        # Biases and the scales of normalisations have no reason to be near zero.
        no_decay: tuple[str, ...] = ("bias", "gamma", "beta"),
        clip_norm: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rates = dict(rates or {})
        self.decay = decay
        self.no_decay = tuple(no_decay)
        self.clip_norm = clip_norm

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        # `update_step` sees TensorFlow variables, whose names are not unique: compare identities.
        keys = {variable.path: self._var_key(variable) for variable in variables}
        self._rates = {keys[path]: rate for path, rate in self.rates.items() if path in keys}
        self._decaying = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_decay)
        }

    def _all_reduce_sum_gradients(self, grads_and_vars: list[tuple]) -> list[tuple]:
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if not self.clip_norm:
            return reduced
        gradients, variables = zip(*reduced, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        return list(zip(gradients, variables, strict=True))

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        key = self._var_key(variable)
        rate = tf.cast(learning_rate, variable.dtype) * self._rates.get(key, 1.0)
        self.move(gradient, variable, rate, self.decay if key in self._decaying else 0.0)

    def move(self, gradient: tf.Tensor, variable: Any, rate: tf.Tensor, decay: float) -> None:
        """Update a variable and its moments: the step that this optimizer is named after."""
        if decay:
            variable.assign_sub(variable * (rate * decay))
        super().update_step(gradient, variable, rate)

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        """Leave the weights: Keras gives the model its averages whenever `fit` ends."""

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "rates": self.rates,
            "decay": self.decay,
            "no_decay": list(self.no_decay),
            "clip_norm": self.clip_norm,
        }


@keras.saving.register_keras_serializable("common")
class AdamW(FineTuning, keras.optimizers.Adam):
    """AdamW in one pass over memory, where Keras makes a dozen: embeddings are long.

    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.
    """

    def move(self, gradient: tf.Tensor, variable: Any, rate: tf.Tensor, decay: float) -> None:
        index = self._get_variable_index(variable)
        if decay:
            variable.assign_sub(variable * (rate * decay))
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


def make_optimizer(
    settings: CoreSettings, models: Models, steps: int, rate_factor: float = 1.0
) -> keras.optimizers.Optimizer:
    """Return the optimizer of a training of so many updates; `rate_factor` multiplies all rates."""
    options = {
        "learning_rate": WarmUpThenDecay(
            settings.learning_rate * rate_factor, steps, int(settings.warm_up * steps)
        ),
        "rates": relative_rates(settings, models),
        "decay": settings.weight_decay,
        "clip_norm": settings.clip_norm,
        **(ask("optimizer_options", settings) or {}),
    }
    chosen = ask("make_optimizer", settings, models, options)
    return chosen or AdamW(epsilon=EPSILON, **options)


def relative_rates(settings: CoreSettings, models: Models) -> dict[str, float]:
    """Return how fast each variable learns, by path, in multiples of `learning_rate`."""
    head = settings.head_learning_rate / settings.learning_rate
    rates = {variable.path: head for variable in models.training.trainable_variables}
    rates |= {variable.path: 1.0 for variable in models.encoder.trainable_variables}
    for name, rate in models.rates.items():
        own = models.training.get_layer(name).trainable_variables
        rates |= {variable.path: rate / settings.learning_rate for variable in own}
    return rates
