"""Micro-batches in one step: the gradient of a whole batch with the memory of one part.

The gradient of a weighted sum is the sum of the gradients of its parts, so the result is the one of
the whole batch. Keras's own `gradient_accumulation_steps` raises under MirroredStrategy.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# The gradient with respect to each variable, and the losses `[batch]` by name.
Gradients = tuple[list[tf.Tensor], dict[str, tf.Tensor]]


def graph_of(model: Any, function: Callable[..., Gradients], names: list[str]) -> Callable:
    """Return the graph of a function of a batch; it runs in micro-batches if the model asks for it.

    Args:
        model: a `TrainingModel`: its `accumulation` is the number of micro-batches.
        function: from a batch, and a dict of other tensors if it takes one, to `Gradients`.
        names: of the losses that it returns.
    """
    if model.accumulation > 1:
        function = functools.partial(sum_micro_batches, model, function, names)
    return tf.function(function, reduce_retracing=True, autograph=False)


def sum_micro_batches(
    model: Any, function: Callable, names: list[str], batch: dict, others: dict | None = None
) -> Gradients:
    """Return the result of `function` for a batch, with the activations of one part at a time.

    Args:
        model: as in `graph_of`, and so are `function` and `names`.
        batch: arrays `[batch, ...]` by name.
        others: other tensors that `function` takes, the same for each micro-batch.
    """
    count = model.accumulation
    micro_batches = {
        name: tf.reshape(array, [count, -1, *tf.unstack(tf.shape(array))[1:]])
        for name, array in batch.items()
    }
    sums = [tf.zeros(variable.shape, tf.float32) for variable in model.trainable_variables]
    losses = {name: tf.TensorArray(tf.float32, size=count) for name in names}

    def add(index: tf.Tensor, sums: list, losses: dict) -> tuple:
        micro_batch = {name: array[index] for name, array in micro_batches.items()}
        for name, array in batch.items():
            micro_batch[name] = tf.ensure_shape(micro_batch[name], [None, *array.shape[1:]])
        gradients, micro_losses = function(micro_batch, *([others] if others else []))
        sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
        losses = {name: losses[name].write(index, micro_losses[name]) for name in losses}
        return index + 1, sums, losses

    _, sums, losses = tf.while_loop(
        lambda index, *_: index < count,
        add,
        (0, sums, losses),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    return sums, {name: array.concat() for name, array in losses.items()}
