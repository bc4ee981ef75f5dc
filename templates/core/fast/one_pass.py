"""Chains of operations that a CPU computes in one pass over memory, with their gradients.

TensorFlow reads and writes whole tensors for each operation. Between two matrix products that takes
longer than the computation. Compiled by XLA, such a chain is one loop.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

OPTIONS = {"jit_compile": True, "autograph": False}


def in_one_pass(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return a function that is compiled on a CPU, together with its gradient.

    On a GPU the function is used as it is: it is fast enough there.

    Args:
        function: from tensors to one tensor, differentiable with respect to each of them.
    """

    @functools.cache
    def compile_for(kinds: tuple) -> tuple[Callable, Callable]:
        @tf.function(**OPTIONS)
        def gradient(inputs, upstream) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = function(*inputs)
            return tape.gradient(outputs, inputs, upstream)

        return tf.function(function, **OPTIONS), gradient

    @tf.custom_gradient
    def compiled(*inputs) -> tuple:
        value, gradient = compile_for(kinds_of(*inputs))
        return value(*inputs), lambda upstream: gradient(inputs, upstream)

    @functools.wraps(function)
    def chosen(*inputs) -> tf.Tensor:
        return (function if has_gpu() else compiled)(*inputs)

    return chosen


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


def kinds_of(*inputs: tf.Tensor) -> tuple:
    """Return shapes and types of tensors; each combination has its own graph, of static shapes."""
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)


def has_gpu() -> bool:
    """Return whether this process computes on a GPU."""
    return bool(tf.config.get_visible_devices("GPU"))
