"""AdamW in one pass over memory, and what fine-tuning adds to any Keras optimizer."""

from typing import Any

import keras
import tensorflow as tf

EPSILON = 1e-6  # as BERT was trained: with Keras's 1e-7 rare rows jump


class FineTuning(keras.optimizers.Optimizer):
    """Per-variable learning rates, weight decay and clipping: a first base class before Keras's.

    Keras clips the gradient of each replica before the sum, so the result depends on the number of
    replicas. Here the sum is clipped. Clipping needs dense gradients, as `TrainingModel` returns.

    Args:
        learning_rate: a rate or a schedule.
        rates: path of a variable -> factor of its learning rate; 1 if it is not named.
        decay: w -= rate * decay * w, in addition to the step of the optimizer.
        no_decay: variables don't decay if their name contains one of these.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        **kwargs: as in the Keras optimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        rates: dict[str, float] | None = None,
        decay: float = 0.01,
        # Biases and the scales of normalizations need not be near zero.
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
        """Update a variable and its moments by the rule of this optimizer."""
        if decay:
            variable.assign_sub(variable * (rate * decay))
        super().update_step(gradient, variable, rate)

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        """Keep the weights: Keras would replace them by their averages whenever `fit` ends."""

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
    """AdamW in one pass over memory; Keras makes a dozen, which is slow for large embeddings.

    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.

    Example:

    >>> weight = keras.Variable([1.0, 1.0], name="kernel")
    >>> optimizer = AdamW(learning_rate=0.1, decay=0.0, clip_norm=0.0)
    >>> optimizer.apply([tf.constant([2.0, -2.0])], [weight])
    >>> [round(float(value), 2) for value in weight.numpy()]
    [0.9, 1.1]
    """

    def __init__(self, *args: Any, epsilon: float = EPSILON, **kwargs: Any) -> None:
        super().__init__(*args, epsilon=epsilon, **kwargs)

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
