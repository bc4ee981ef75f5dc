"""The optimizer of a training: warm-up and linear decay, learning rates by layer, AdamW."""

from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from core.step import Models

if TYPE_CHECKING:
    from core.training import Training


@keras.saving.register_keras_serializable("common")
class WarmUpThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rise linearly to the peak, then fall linearly; no update has a learning rate of 0.

    Args:
        peak: the highest learning rate (of the encoder).
        steps: updates of the whole training.
        warm_up_steps: updates until the peak: at first Adam's averages rest on few gradients.

    Example:
    >>> schedule = WarmUpThenDecay(peak=1.0, steps=6, warm_up_steps=2)
    >>> [round(float(schedule(step)), 2) for step in range(6)]
    [0.5, 1.0, 0.8, 0.6, 0.4, 0.2]
    """

    def __init__(self, peak: float, steps: int, warm_up_steps: int) -> None:
        self.peak = peak
        self.steps = steps
        self.warm_up_steps = warm_up_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, "float32") + 1.0
        rise = step / max(self.warm_up_steps, 1)  # above 1 after warm-up
        done = (step - self.warm_up_steps) / (self.steps - self.warm_up_steps + 1)  # below 0 before
        return self.peak * tf.minimum(rise, self.fall(tf.clip_by_value(done, 0.0, 1.0)))

    def fall(self, done: tf.Tensor) -> tf.Tensor:
        """Return the share of the peak when a share `done` of the steps after warm-up is done."""
        return 1.0 - done

    def get_config(self) -> dict:
        return {"peak": self.peak, "steps": self.steps, "warm_up_steps": self.warm_up_steps}


def make_optimizer(training: "Training") -> keras.optimizers.Optimizer:
    """Return the optimizer of a training: AdamW, unless an extra replaces it.

    The gradient is summed over all replicas, then clipped. Weight decay leaves out biases and the
    scales of normalizations (`no_decay` in core/fast/adamw.py).
    """
    settings = training.settings
    planned_steps = training.planned_steps  # for all epochs, even if `settings.steps` is less
    replicas = training.strategy.num_replicas_in_sync
    factor = float(replicas) if settings.devices.scale_learning_rate else 1.0
    peak, warm_up_steps = settings.learning_rate * factor, int(settings.warm_up * planned_steps)
    schedule = WarmUpThenDecay(peak, planned_steps, warm_up_steps)
    # By default `AdamW` of core/fast/adamw.py: one pass over memory, and BERT's epsilon.
    return training.optimizer_class(
        learning_rate=schedule,
        rate_factors=rate_factors(settings, training.models),
        decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
        **training.optimizer_options,
    )


def rate_factors(settings, models: Models) -> dict[str, float]:
    """Return a dict: path of a variable -> its learning rate divided by `learning_rate`.

    With the rates 1e-4 of the encoder and 1e-3 of the other layers these are 1 and 10.
    """
    # Learning rates: first `head_learning_rate` for all, then the encoder's own, then those of
    # single layers. The optimizer multiplies its schedule by each rate / `learning_rate`.
    rates = dict.fromkeys(paths_of(models.training), settings.head_learning_rate)
    rates |= dict.fromkeys(paths_of(models.encoder), settings.learning_rate)
    for name, rate in models.learning_rates.items():
        rates |= dict.fromkeys(paths_of(models.training.get_layer(name)), rate)
    return {path: rate / settings.learning_rate for path, rate in rates.items()}


def paths_of(layer: keras.layers.Layer) -> list[str]:
    """Return the paths, which are unique names, of the trainable variables of a layer or model."""
    return [variable.path for variable in layer.trainable_variables]
