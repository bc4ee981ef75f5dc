"""The logarithm of a sum of exponentials, with few operations in its gradient."""

import tensorflow as tf


@tf.custom_gradient
def log_one_plus_sum_exp(scores: tf.Tensor) -> tuple:
    """Return log(1 + sum e^scores) over the last axis; its gradient is e^score / (1 + sum).

    Args:
        scores: `[..., scores]`, in float32.

    Example:

    >>> round(float(log_one_plus_sum_exp(tf.constant([0.0, 0.0]))), 4)  # log 3
    1.0986
    """
    top = tf.maximum(tf.reduce_max(scores, axis=-1), 0.0)
    powers = tf.exp(scores - top[..., None])
    total = tf.exp(-top) + tf.reduce_sum(powers, axis=-1)
    return top + tf.math.log(total), lambda upstream: powers * (upstream / total)[..., None]
