"""AdamW in one pass over memory, and what fine-tuning adds to any Keras optimizer."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from core.exact.loss_scale import LossScale

EPSILON = 1e-6  # as BERT was trained: with Keras's 1e-7 rare rows jump


class FineTuning(keras.optimizers.Optimizer):
    """Per-variable learning rates, weight decay and clipping: a first base class before Keras's.

    Keras clips the gradient of each replica before the sum, so the result depends on the number of
    replicas. Here the sum is clipped. Clipping needs dense gradients, as `TrainingModel` returns.

    Args:
        learning_rate: a rate or a schedule.
        rate_factors: path of a variable -> factor of its learning rate; 1 if it is not named.
        decay: w -= rate * decay * w, in addition to the step of the optimizer.
        no_decay: variables don't decay if their name contains one of these.
        clip_norm: largest norm of the whole gradient; 0: never clip.
        xla: compile the update of all variables, where the optimizer can do that.
        **kwargs: as in the Keras optimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        rate_factors: dict[str, float] | None = None,
        decay: float = 0.01,
        # Biases and the scales of normalizations need not be near zero.
        no_decay: tuple[str, ...] = ("bias", "gamma", "beta"),
        clip_norm: float = 1.0,
        xla: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.rate_factors = dict(rate_factors or {})
        self.decay = decay
        self.no_decay = tuple(no_decay)
        self.clip_norm = clip_norm
        self.xla = xla

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        # `update_step` sees TensorFlow variables, whose names are not unique: compare identities.
        keys = {variable.path: self._var_key(variable) for variable in variables}
        self._factors = {keys[path]: own for path, own in self.rate_factors.items() if path in keys}
        self._decaying = {
            self._var_key(variable)
            for variable in variables
            if not any(part in variable.name for part in self.no_decay)
        }
        is_half = keras.config.dtype_policy().name == "mixed_float16"
        self.loss_scale = LossScale(self) if is_half else None

    def _backend_update_step(self, grads: list, trainable_variables: list, learning_rate) -> None:
        # As in Keras, but what all variables need is computed once, not for each of them.
        variables = [getattr(variable, "value", variable) for variable in trainable_variables]
        reduced = self._all_reduce_sum_gradients(list(zip(grads, variables, strict=True)))
        gradients = [gradient for gradient, _ in reduced]
        numbers = self.numbers(learning_rate)
        if self.loss_scale:
            numbers["finite"] = self.loss_scale.adapt(gradients)
        self.update(gradients, variables, numbers)

    def update(self, gradients: list, variables: list, numbers: dict) -> None:
        """Update the variables by gradients that are summed over replicas."""
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._distributed_tf_update_step,
            self._distribution_strategy,
            list(zip(self.clip(gradients), variables, strict=True)),
            numbers,
        )

    def numbers(self, learning_rate: tf.Tensor) -> dict[str, Any]:
        """Return the numbers of an update that many variables share.

        Returns:
            `rate`: factor -> learning rate; `decay`: the same, times the weight decay.
        """
        factors = {1.0, *self._factors.values()}
        rate = {factor: tf.cast(learning_rate, tf.float32) * factor for factor in factors}
        return {"rate": rate, "decay": {factor: rate[factor] * self.decay for factor in factors}}

    def clip(self, gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Return gradients whose common norm is at most `clip_norm`."""
        return tf.clip_by_global_norm(gradients, self.clip_norm)[0] if self.clip_norm else gradients

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: Any) -> None:
        def move() -> None:
            key, numbers = self._var_key(variable), learning_rate
            factor = self._factors.get(key, 1.0)
            decays = self.decay and key in self._decaying
            decay = numbers["decay"][factor] if decays else None
            self.move(gradient, variable, numbers["rate"][factor], decay, numbers)

        if self.loss_scale:
            tf.cond(learning_rate["finite"], move, lambda: None)
        else:
            move()

    def move(
        self, gradient: tf.Tensor, variable: Any, rate: tf.Tensor, decay: Any, numbers: dict
    ) -> None:
        """Update a variable and its moments by the rule of this optimizer.

        Args:
            gradient: summed over replicas and clipped.
            variable: of TensorFlow.
            rate: its learning rate.
            decay: the share of the variable that is taken away; None: it does not decay.
            numbers: from `numbers`.
        """
        if decay is not None:
            variable.assign_sub(variable * decay)
        super().update_step(gradient, variable, rate)

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        """Keep the weights: Keras would replace them by their averages whenever `fit` ends."""

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "rate_factors": self.rate_factors,
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

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.program = tf.function(self.update_all, jit_compile=True, autograph=False)

    def update(self, gradients: list, variables: list, numbers: dict) -> None:
        if not self.xla or type(self).update_step is not FineTuning.update_step:
            super().update(gradients, variables, numbers)  # an extra has changed the step
            return
        # Each replica updates its own copies, by the same sum of gradients.
        handles = [[state.handle for state in self.states_of(variable)] for variable in variables]
        self.keys = [self._var_key(variable) for variable in variables]
        self.program(gradients, handles, numbers)

    def update_all(self, gradients: list, handles: list, numbers: dict) -> None:
        """Update all variables, given by their handles, in one program."""

        def move() -> None:
            for key, gradient, own in zip(self.keys, self.clip(gradients), handles, strict=True):
                self.adam(key, gradient, own, numbers)

        if self.loss_scale:
            tf.cond(numbers["finite"], move, lambda: None)
        else:
            move()

    def numbers(self, learning_rate: tf.Tensor) -> dict[str, Any]:
        """Return also `powers`: those of both betas."""
        step = tf.cast(self.iterations + 1, tf.float32)
        if self.loss_scale:
            step -= self.loss_scale.skipped.value
        powers = (self.beta_1**step, self.beta_2**step)
        return {**super().numbers(learning_rate), "powers": powers}

    def states_of(self, variable: Any) -> list[Any]:
        """Return a variable and its moments."""
        index = self._get_variable_index(variable)
        return [variable, self._momentums[index].value, self._velocities[index].value]

    def move(
        self, gradient: tf.Tensor, variable: Any, rate: tf.Tensor, decay: Any, numbers: dict
    ) -> None:
        handles = [state.handle for state in self.states_of(variable)]
        self.adam(self._var_key(variable), gradient, handles, numbers)

    def adam(self, key: str, gradient: tf.Tensor, handles: list, numbers: dict) -> None:
        """Update one variable and its moments, given by their handles."""
        variable, first, second = handles
        factor = self._factors.get(key, 1.0)
        if self.decay and key in self._decaying:
            value = tf.raw_ops.ReadVariableOp(resource=variable, dtype=gradient.dtype)
            decayed = value * numbers["decay"][factor]
            tf.raw_ops.AssignSubVariableOp(resource=variable, value=decayed)
        tf.raw_ops.ResourceApplyAdam(
            var=variable,
            m=first,
            v=second,
            beta1_power=numbers["powers"][0],
            beta2_power=numbers["powers"][1],
            lr=numbers["rate"][factor],
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )
