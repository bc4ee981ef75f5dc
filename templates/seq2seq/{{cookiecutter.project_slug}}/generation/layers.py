"""The layers of a model, as the cache of generation calls them: token by token."""

import functools

import keras
import keras_hub
import tensorflow as tf
from keras import ops

from core.base.errors import InputError
from core.encoders.encoder import hidden_states
from generation.steps import WritingLayers
from task.model import PrefixLanguageModel, find_positions

# The inputs of a model, besides those of an encoder, that the functions below read.
READ_INPUTS = {"token_ids", "segment_ids", "padding_mask", "target_ids"}


def writing_layers(model: keras.Model) -> WritingLayers:
    """Return the parts of an inference model that the cache of generation calls.

    If you change how the layers compute, change this too, or set `cache = false`.

    Raises:
        InputError: the model has an input that is not read here, so texts would ignore it.
    """
    for layer in model.layers:
        if hasattr(layer, "steps"):  # a pretrained writer computes the steps by itself
            return layer
    refuse_unread_inputs(model)
    if any(layer.name == "unilm" for layer in model.layers):
        unilm = model.get_layer("unilm")
        layers = unilm.encoder.transformer_layers
        of_source, of_next = (functools.partial(one, unilm) for one in (read_source, embed_next))
        return WritingLayers(layers, of_source, of_next, unilm.score)
    encoder = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    kind = keras_hub.layers.TransformerDecoder
    layers = [layer for layer in model.layers if isinstance(layer, kind)]

    def read(sources: dict) -> list[tf.Tensor]:
        inputs = {tensor.name: sources[tensor.name] for tensor in encoder.inputs}
        return [hidden_states(encoder, inputs)] * len(layers)

    def embed(tokens: tf.Tensor, index: tf.Tensor, source_length: tf.Tensor) -> tf.Tensor:
        tokens = model.get_layer("target_embedding")(tokens)
        places = ops.broadcast_to(index, ops.shape(tokens)[:2])
        places = model.get_layer("target_positions")(tokens, positions=places)
        return model.get_layer("target_norm")(tokens + places)

    def score(hidden: tf.Tensor) -> tf.Tensor:
        hidden = model.get_layer("head_norm")(model.get_layer("head_dense")(hidden))
        return model.get_layer("target_embedding")(hidden, reverse=True)

    return WritingLayers(layers, read, embed, score)


def refuse_unread_inputs(model: keras.Model) -> None:
    """Raise InputError where a model has inputs that the cache would ignore."""
    encoders = [layer for layer in model.layers if isinstance(layer, keras.Model)]
    read = READ_INPUTS | {tensor.name for encoder in encoders for tensor in encoder.inputs}
    unread = [tensor.name for tensor in model.inputs if tensor.name not in read]
    if unread:
        raise InputError(
            f"generated texts would ignore the input {unread[0]!r} of the model: set cache = false "
            "in [generation] of config.toml, or read the input in generation/layers.py and name it "
            "in READ_INPUTS there."
        )


def read_source(model: PrefixLanguageModel, sources: dict) -> list[tf.Tensor]:
    """Return the source's hidden states that each layer attends to; they see no target."""
    positions = find_positions(sources["padding_mask"])
    hidden = [model.embed(sources["token_ids"], sources["segment_ids"], positions)]
    mask = ops.cast(sources["padding_mask"], "bool")[:, None, :]
    for layer in model.encoder.transformer_layers[:-1]:
        hidden.append(layer(hidden[-1], attention_mask=mask, training=False))
    return hidden


def embed_next(
    model: PrefixLanguageModel, tokens: tf.Tensor, index: tf.Tensor, source_length: tf.Tensor
) -> tf.Tensor:
    """Return the embeddings of target tokens; their positions follow those of the source."""
    places = ops.broadcast_to(source_length + index, ops.shape(tokens))
    return model.embed(tokens, ops.ones_like(tokens), places)
