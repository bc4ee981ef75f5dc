"""Learning rates that rise first and then follow a curve."""

import math

import keras
import numpy as np
import tensorflow as tf

from core.optimizer import WarmUpThenDecay


@keras.saving.register_keras_serializable("common")
class ShapedSchedule(WarmUpThenDecay):
    """Rise linearly from 0 to the peak, then follow a curve.

    Args:
        peak: the highest learning rate.
        steps: updates of the whole training.
        warm_up_steps: updates until the peak.
        shape: `linear`, `cosine` and `polynomial` fall to 0, `piecewise` follows its points,
            `constant` stays.
        power: of `polynomial`: (1 - done)^power.
        points: of `piecewise`: pairs of the fraction of steps after the warm-up and of the peak,
            joined by straight lines.
    """

    def __init__(
        self,
        peak: float,
        steps: int,
        warm_up_steps: int,
        shape: str = "linear",
        power: float = 1.0,
        points: tuple = (),
    ) -> None:
        super().__init__(peak, steps, warm_up_steps)
        self.shape = shape
        self.power = power
        self.points = [tuple(point) for point in points]

    def fall(self, done: tf.Tensor) -> tf.Tensor:
        if self.shape == "constant":
            return tf.ones_like(done)
        if self.shape == "cosine":
            return 0.5 * (1.0 + tf.cos(math.pi * done))
        if self.shape == "piecewise":
            return interpolate(done, self.points)
        return (1.0 - done) ** (self.power if self.shape == "polynomial" else 1.0)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "shape": self.shape,
            "power": self.power,
            "points": self.points,
        }


def interpolate(place: tf.Tensor, points: list[tuple[float, float]]) -> tf.Tensor:
    """Return the value of a polyline at a place; constant before and after its points.

    Each segment adds its slope times its length before the place.
    """
    places, heights = np.array(points, "float32").T
    height = tf.fill(tf.shape(place), heights[0])
    for number, slope in enumerate(np.diff(heights) / np.diff(places)):
        height += slope * (
            tf.clip_by_value(place, places[number], places[number + 1]) - places[number]
        )
    return height
