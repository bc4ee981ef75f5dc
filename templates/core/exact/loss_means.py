"""The means of all losses over the examples of an epoch, in few operations."""

from typing import Any

import keras
import tensorflow as tf


class LossMeans(keras.metrics.Metric):
    """Means of several losses over examples, kept as sums: right on a partial last batch too.

    One metric for each loss would start ten operations for each, which on a GPU takes longer than
    to compute them.

    Args:
        names: of the losses.

    Example:

    >>> means = LossMeans(["loss", "head_loss"])
    >>> losses = {"loss": tf.constant([3.0, 1.0, 9.0]), "head_loss": tf.constant([1.0, 0.0, 9.0])}
    >>> means.update_state(losses, counted=tf.constant([1.0, 1.0, 0.0]))
    >>> {name: float(mean) for name, mean in means.result().items()}
    {'loss': 2.0, 'head_loss': 0.5}
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(dtype="float32", name="losses")
        self.names = names
        self.sums = self.add_variable((len(names),), "zeros", name="sums")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, losses: dict[str, tf.Tensor], counted: tf.Tensor) -> Any:
        """Add the losses of a batch.

        Args:
            losses: `[batch]` by name; others than those of `names` are left out.
            counted: 1 for an example that counts, 0 for padding `[batch]`.
        """
        rows = tf.stack([tf.cast(losses[name], tf.float32) for name in self.names])
        self.sums.assign_add(tf.reduce_sum(rows * counted, axis=1))
        self.count.assign_add(tf.reduce_sum(counted))

    def result(self) -> dict[str, tf.Tensor]:
        """Return the mean of each loss by name."""
        means = tf.math.divide_no_nan(self.sums.value, self.count.value)
        return dict(zip(self.names, tf.unstack(means), strict=True))
