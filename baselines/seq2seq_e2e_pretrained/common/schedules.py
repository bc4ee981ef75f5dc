"""Learning rates that rise at first and then fall."""

import math

import keras
import numpy as np
import tensorflow as tf


@keras.saving.register_keras_serializable("common")
class WarmUpThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rise linearly from 0 to the peak, then follow a curve.

    Args:
        peak: the highest learning rate.
        steps: updates of the whole training.
        warm_up_steps: updates until the peak; without a warm-up Adam's first moments are noise.
        shape: `linear`, `cosine`, `polynomial` and `piecewise` fall to 0 or where their points
            lead; `constant` stays.
        power: of `polynomial`: (1 - done)^power.
        points: of `piecewise`: pairs of the share done after the warm-up and of the peak, joined
            by straight lines.
    """

    def __init__(
        self,
        peak: float,
        steps: int,
        warm_up_steps: int,
        shape: str = "linear",
        power: float = 1.0,
        points: tuple = (),
    ):
        self.peak = peak
        self.steps = steps
        self.warm_up_steps = warm_up_steps
        self.shape = shape
        self.power = power
        self.points = [tuple(point) for point in points]

    def __call__(self, step):
        step = tf.cast(step, "float32") + 1.0  # the first update is number 1: no step is lost at 0
        rise = step / max(self.warm_up_steps, 1)
        # The last update is above 0 too: it would be a step for nothing.
        done = (step - self.warm_up_steps) / (self.steps - self.warm_up_steps + 1)
        fall = self.fall(tf.clip_by_value(done, 0.0, 1.0))
        return self.peak * tf.minimum(rise, fall)

    def fall(self, done: tf.Tensor) -> tf.Tensor:
        """Return the share of the peak when a share of the steps after the warm-up is done."""
        if self.shape == "constant":
            return tf.ones_like(done)
        if self.shape == "cosine":
            return 0.5 * (1.0 + tf.cos(math.pi * done))
        if self.shape == "piecewise":
            return interpolate(done, self.points)
        return (1.0 - done) ** (self.power if self.shape == "polynomial" else 1.0)

    def get_config(self):
        return {
            "peak": self.peak,
            "steps": self.steps,
            "warm_up_steps": self.warm_up_steps,
            "shape": self.shape,
            "power": self.power,
            "points": self.points,
        }


def interpolate(place: tf.Tensor, points: list[tuple[float, float]]) -> tf.Tensor:
    """Return the height of a polyline at a place; level before its first and after its last point.

    Each piece adds its slope times the part of it that lies before the place.
    """
    places, heights = np.array(points, "float32").T
    height = tf.fill(tf.shape(place), heights[0])
    for number, slope in enumerate(np.diff(heights) / np.diff(places)):
        height += slope * (
            tf.clip_by_value(place, places[number], places[number + 1]) - places[number]
        )
    return height
