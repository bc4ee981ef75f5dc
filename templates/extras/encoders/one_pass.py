"""A chain of operations that a CPU computes in one pass over memory, with its gradient."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from core.fast import one_pass


def in_one_pass(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Return a function that is compiled on a CPU, together with its gradient.

    On a GPU the function is used as it is: it is fast enough there.

    Args:
        function: from tensors to one tensor, differentiable with respect to each of them.
    """

    @functools.cache
    def compile_for(kinds: tuple) -> tuple[Callable, Callable]:
        @tf.function(**one_pass.OPTIONS)
        def gradient(inputs, upstream) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = function(*inputs)
            return tape.gradient(outputs, inputs, upstream)

        return tf.function(function, **one_pass.OPTIONS), gradient

    @tf.custom_gradient
    def compiled(*inputs) -> tuple:
        value, gradient = compile_for(one_pass.kinds_of(*inputs))
        return value(*inputs), lambda upstream: gradient(inputs, upstream)

    @functools.wraps(function)
    def chosen(*inputs) -> tf.Tensor:
        return (function if one_pass.has_gpu() else compiled)(*inputs)

    return chosen
