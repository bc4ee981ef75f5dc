"""Recompute Transformer layers in the backward pass instead of keeping what they computed.

Of each layer only the input is kept: its attention and all else is there for one layer at a time.
Source: Chen et al. 2016, https://arxiv.org/abs/1604.06174.
"""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from core.base.errors import InputError
from core.model.encoder import named_layers

KINDS = (keras_hub.layers.TransformerEncoder, keras_hub.layers.TransformerDecoder)


def recompute_layers(model: keras.Model) -> None:
    """Let every Transformer layer of a model be recomputed while it is trained.

    Raises:
        InputError: the model has no layer of a kind that is known here.
    """
    layers = [layer for _, layer in named_layers(model) if isinstance(layer, KINDS)]
    if not layers:
        raise InputError(
            "recompute needs an encoder of KerasHub's TransformerEncoder layers: add its kind of "
            "layer to KINDS in extras/recompute/recompute.py, or set enabled = false."
        )
    for layer in layers:
        if "call" not in vars(layer):
            layer.call = recomputed(layer)


def recomputed(layer: keras.layers.Layer) -> Callable:
    """Return the `call` of a layer that computes a second time when its gradient is asked for."""
    call = layer.call

    def call_twice(*args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        if not training:
            return call(*args, training=training, **kwargs)
        inputs = tf.nest.flatten((args, kwargs))
        # Gradients flow to arguments, not to what a function finds around it.
        places = [place for place, value in enumerate(inputs) if is_differentiable(value)]
        states = [variable for variable in layer.variables if is_random_state(variable, layer)]
        before = [tf.identity(tf.convert_to_tensor(state)) for state in states]
        after: list[tf.Tensor] = []

        def compute(*differentiable: tf.Tensor) -> Any:
            for place, value in zip(places, differentiable, strict=True):
                inputs[place] = value
            args_again, kwargs_again = tf.nest.pack_sequence_as((args, kwargs), inputs)
            # Both times from the same states: `keras.remat` draws other dropout masks the second
            # time, and returns the gradient of another loss.
            with keras.StatelessScope(state_mapping=zip(states, before, strict=True)) as scope:
                output = call(*args_again, training=True, **kwargs_again)
            after[:] = [scope.get_current_value(state) for state in states]
            return output

        output = tf.recompute_grad(compute)(*(inputs[place] for place in places))
        for state, value in zip(states, after, strict=True):
            state.assign(value)
        return output

    return call_twice


def is_differentiable(value: Any) -> bool:
    """Tell whether a gradient can flow to an argument of a layer."""
    return tf.is_tensor(value) and value.dtype.is_floating


def is_random_state(variable: keras.Variable, layer: keras.layers.Layer) -> bool:
    """Tell whether a variable is the state of a random generator, which Keras calls no weight."""
    return not any(variable is weight for weight in layer.weights)
