"""Chains of operations that a processor computes in one pass over memory, and their gradients.

Operation by operation TensorFlow reads and writes whole tensors, and between two products of
matrices that takes longer than computing does. Compiled by XLA, a chain is one loop.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

OPTIONS = {"jit_compile": True, "autograph": False}


def in_one_pass(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return a function of tensors that is compiled, and its gradient too, on processors.

    Graphics cards need no help: there it is the function itself.

    Args:
        function: of tensors to one tensor, differentiable by each of them.
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
        return (function if has_graphics_card() else compiled)(*inputs)

    return chosen


def activate(parts: Callable, inputs: tf.Tensor) -> tuple[tf.Tensor, Callable] | None:
    """Return an activation and its gradient; None: operation by operation it is as good.

    A processor spends longer on GELU in bfloat16 than on the products before and after it, and
    four times as long as compiled on its approximation by tanh. In float32 the exact GELU gains
    too little for a compilation of each shape.

    Args:
        parts: from inputs in float32 to the value and the slope.
        inputs: of the activation.
    """
    is_exact = parts.__name__ == "exact_gelu_function"
    if has_graphics_card() or (inputs.dtype == tf.float32 and is_exact):
        return None
    value, gradient = compiled_activation(parts, kinds_of(inputs))
    return value(inputs), lambda upstream: gradient(inputs, upstream)


@functools.cache
def compiled_activation(parts: Callable, kinds: tuple) -> tuple[Callable, Callable]:
    """Return value and gradient of an activation for inputs of a kind."""

    @tf.function(**OPTIONS)
    def value(inputs) -> tf.Tensor:
        return tf.cast(parts(tf.cast(inputs, "float32"))[0], inputs.dtype)

    @tf.function(**OPTIONS)
    def gradient(inputs, upstream) -> tf.Tensor:
        slope = parts(tf.cast(inputs, "float32"))[1]
        return tf.cast(slope * tf.cast(upstream, "float32"), inputs.dtype)

    return value, gradient


def kinds_of(*inputs: tf.Tensor) -> tuple:
    """Return shapes and types: for each a graph of its own, in which all shapes are known."""
    return tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)


def has_graphics_card() -> bool:
    """Tell whether this process computes on graphics cards."""
    return bool(tf.config.get_visible_devices("GPU"))
