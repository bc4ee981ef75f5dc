"""Recompute Transformer layers in the backward pass instead of storing their activations.

Only the input of each layer is stored; all other activations exist for one layer at a time.
Source: Chen et al. 2016, https://arxiv.org/abs/1604.06174.
"""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import tensorflow as tf
from keras.src.backend import AutocastScope  # Keras exports none

from core.base.errors import InputError
from core.exact.dropout import CURRENT, named_layers

KINDS = (keras_hub.layers.TransformerEncoder, keras_hub.layers.TransformerDecoder)


def recompute_layers(model: keras.Model) -> None:
    """Let every Transformer layer of a model be recomputed in training.

    Raises:
        InputError: the model has no layer of a known kind.
    """
    layers = [layer for _, layer in named_layers(model) if is_transformer_layer(layer)]
    if not layers:
        raise InputError(
            "recompute needs an encoder of KerasHub's TransformerEncoder layers: add its kind of "
            "layer to KINDS in extras/recompute/recompute.py, or set enabled = false."
        )
    for layer in layers:
        if "call" not in vars(layer):
            layer.call = recomputed(layer)


def is_transformer_layer(layer: keras.layers.Layer) -> bool:
    """Return whether a layer is a whole one of a Transformer; those of other extras say so."""
    return isinstance(layer, KINDS) or getattr(layer, "is_transformer_layer", False)


def recomputed(layer: keras.layers.Layer) -> Callable:
    """Return a `call` for a layer that computes it again when its gradient is needed."""
    call = layer.call

    def call_twice(*args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        masks = CURRENT.get()
        # Keras would draw other masks the second time: the gradient would be of another loss.
        if not training or masks is None:
            return call(*args, training=training, **kwargs)
        inputs = tf.nest.flatten((args, kwargs))
        # Gradients flow to arguments, not to variables from an enclosing function.
        places = [place for place, value in enumerate(inputs) if is_differentiable(value)]
        calls = dict(masks.calls)

        def compute(*differentiable: tf.Tensor) -> Any:
            for place, value in zip(places, differentiable, strict=True):
                inputs[place] = value
            args_again, kwargs_again = tf.nest.pack_sequence_as((args, kwargs), inputs)
            # It runs outside of the scope in which weights are read in 16 bits.
            with masks.drawn(calls), AutocastScope(layer.compute_dtype):
                return call(*args_again, training=True, **kwargs_again)

        return tf.recompute_grad(compute)(*(inputs[place] for place in places))

    return call_twice


def is_differentiable(value: Any) -> bool:
    """Return whether a gradient can flow to an argument of a layer."""
    return tf.is_tensor(value) and value.dtype.is_floating
