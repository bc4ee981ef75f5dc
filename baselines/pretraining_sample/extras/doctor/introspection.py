"""The layers of a model: their paths, their places in the code, and what they put out."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.data.data_checks import name_place
from core.data.data_generator import Batch
from core.model.dropout import can_be_placed
from core.model.encoder import named_layers


def watch_layers(
    model: keras.Model, batch: Batch, training: bool
) -> list[tuple[str, list[np.ndarray]]]:
    """Return `(path, outputs)` of each call of a layer, in the order in which they end."""
    seen = []

    def watch(path: str, call: Callable) -> Callable:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            outputs = call(*args, **kwargs)
            arrays = [np.asarray(array) for array in tf.nest.flatten(outputs)]
            seen.append((path, arrays))
            return outputs

        return watched

    layers = list(named_layers(model))
    for path, layer in layers:
        layer.call = watch(path, layer.call)
    try:
        model(model_inputs(model, batch), training=training)
    finally:
        for _, layer in layers:
            layer.__dict__.pop("call", None)
    return seen


@contextlib.contextmanager
def without_dropout(model: keras.Model) -> Iterator[None]:
    """Switch off every dropout layer of a model for a while."""
    rates = [
        (layer, layer.rate)
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Dropout)
    ]
    for layer, _ in rates:
        layer.rate = 0.0
    try:
        yield
    finally:
        for layer, rate in rates:
            layer.rate = rate


def draws_alike(layer: keras.layers.Layer) -> bool:
    """Tell whether a layer draws random numbers, and the same ones on every replica."""
    draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
    # Keras's attention has a generator that only its dropout layer stands for.
    passes_on = isinstance(layer, keras.layers.MultiHeadAttention)
    return draws and not passes_on and not can_be_placed(layer)


def model_inputs(model: keras.Model, batch: Batch) -> dict[str, tf.Tensor]:
    """Return what a model reads of a batch."""
    return as_tensors({tensor.name: batch[tensor.name] for tensor in model.inputs})


def as_tensors(batch: Batch) -> dict[str, tf.Tensor]:
    """Return tensors of arrays."""
    return {name: tf.convert_to_tensor(array) for name, array in batch.items()}


def place_of(layer: keras.layers.Layer) -> str:
    """Return file and line of the code of a layer; empty: it is a library's."""
    code = layer.function if isinstance(layer, keras.layers.Lambda) else type(layer)
    try:
        return name_place(inspect.getsourcefile(code), inspect.getsourcelines(code)[1])
    except (OSError, TypeError):  # defined where there is no file, or in C
        return ""
