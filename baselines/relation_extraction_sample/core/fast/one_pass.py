"""Chains of operations that a CPU computes in one pass over memory, with their gradients.

TensorFlow reads and writes whole tensors for each operation. Between two matrix products that takes
longer than the computation. Compiled by XLA, such a chain is one loop.
"""

import functools
import os
from collections.abc import Callable

import tensorflow as tf

OPTIONS = {"jit_compile": True, "autograph": False}
# From this many heads on, the loss is computed head by head; with fewer, that gains little.
MANY = 12
# Heads, one for each core; their slopes are summed in order, so that sums don't depend on it.
AT_ONCE = min(os.cpu_count() or 1, 16)


def activate(parts: Callable, inputs: tf.Tensor) -> tuple[tf.Tensor, Callable] | None:
    """Return an activation and its gradient, compiled; None: compiling would not pay.

    A CPU spends more time on GELU in bfloat16 than on the matrix products before and after it. Its
    approximation by tanh takes four times as long as the compiled one. In float32 the exact GELU
    gains too little to compile it for each shape.

    Args:
        parts: from inputs in float32 to value and slope.
        inputs: of the activation.
    """
    is_exact = parts.__name__ == "exact_gelu_function"
    if has_gpu() or (inputs.dtype == tf.float32 and is_exact):
        return None
    value, gradient = compiled_activation(parts, kinds_of(inputs))
    return value(inputs), lambda upstream: gradient(inputs, upstream)


@functools.cache
def compiled_activation(parts: Callable, kinds: tuple) -> tuple[Callable, Callable]:
    """Return value and gradient of an activation, for inputs of one shape and type."""

    @tf.function(**OPTIONS)
    def value(inputs) -> tf.Tensor:
        return tf.cast(parts(tf.cast(inputs, "float32"))[0], inputs.dtype)

    @tf.function(**OPTIONS)
    def gradient(inputs, upstream) -> tf.Tensor:
        slope = parts(tf.cast(inputs, "float32"))[1]
        return tf.cast(slope * tf.cast(upstream, "float32"), inputs.dtype)

    return value, gradient


@tf.custom_gradient
def log_one_plus_sum_exp(scores: tf.Tensor) -> tuple:
    """Return log(1 + sum e^scores) over the last axis; its gradient is e^score / (1 + sum).

    Args:
        scores: `[..., scores]`, in float32.

    Example:

    >>> round(float(log_one_plus_sum_exp(tf.constant([0.0, 0.0]))), 4)  # log 3
    1.0986
    """
    value, powers, total = sum_powers(scores)
    return value, lambda upstream: powers * (upstream / total)[..., None]


def sum_powers(scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return log(1 + sum e^scores) over the last axis, and what its gradient is made of.

    That is powers / total: both are divided by e^top, so that no power overflows.
    """
    top = tf.maximum(tf.reduce_max(scores, axis=-1), 0.0)
    powers = tf.exp(scores - top[..., None])
    total = tf.exp(-top) + tf.reduce_sum(powers, axis=-1)
    return top + tf.math.log(total), powers, total


def pays(heads: int) -> bool:
    """Return whether a CPU computes so many heads faster one after the other than at once."""
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    return heads >= MANY and kinds == {"CPU"}


def kinds_of(*inputs: tf.Tensor) -> tuple:
    """Return shapes and types of tensors; each combination has its own graph, of static shapes."""
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)


def has_gpu() -> bool:
    """Return whether this process computes on a GPU."""
    return bool(tf.config.get_visible_devices("GPU"))
