"""Steps of a model that writes: from source and target so far to logits of the next token.

`RecomputedSteps` works for any model and computes everything again for each token. `CachedSteps`
keeps the keys and values of all tokens; the task gives it its layers as `WritingLayers`. All shapes
are static except for the length of the sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import keras
import tensorflow as tf
from keras import ops

from core.fast.transformer import MASKED


class Steps(Protocol):
    """The interface between a search and a model."""

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        """Read the sources once.

        Args:
            sources: arrays `[batch, source]` by the names of the encoder's inputs.
            beams: hypotheses of each record.

        Returns:
            The constant context, and the state `[batch, beams, ...]` of the first step.
        """
        ...

    def step(
        self, context: dict, state: dict, tokens: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, dict]:
        """Return the logits `[batch, beams, vocabulary]` after `tokens`, and the next state.

        Args:
            context: from `begin`.
            state: from the step before.
            tokens: the last ones written `[batch, beams]`.
            index: how many tokens were written before these.
        """
        ...


@dataclass(frozen=True)
class WritingLayers:
    """The parts of a model that a cache calls.

    Attributes:
        layers: Transformer layers of KerasHub that write: encoders, which read source and target
            as one sequence, or decoders, which attend to the source by a second attention.
        read: from the sources to the hidden states `[batch, source, width]` that each layer attends
            to.
        embed: from tokens `[batch, beams]`, their place in the target and the number of tokens of
            each source `[batch, 1]` to the input of the first layer, `[batch, beams, width]`.
        score: from the output of the last layer to logits.
    """

    layers: Sequence[keras.layers.Layer]
    read: Callable[[dict], list[tf.Tensor]]
    embed: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    score: Callable[[tf.Tensor], tf.Tensor]

    def steps(self, length: int) -> Steps:
        """Return the steps of a search for targets of at most `length` tokens."""
        return CachedSteps(self, length)


class RecomputedSteps:
    """Steps of any model: slow and simple; caches are tested against it.

    Args:
        model: the inference model.
        length: tokens of a target.
    """

    def __init__(self, model: keras.Model, length: int) -> None:
        self.model = model
        self.length = length

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        rows = ops.shape(sources["token_ids"])[0]
        names = {tensor.name for tensor in self.model.inputs} & sources.keys()
        repeated = {name: ops.repeat(sources[name], beams, axis=0) for name in names}
        return repeated, {"target_ids": ops.zeros((rows, beams, self.length), "int32")}

    def step(
        self, context: dict, state: dict, tokens: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, dict]:
        target_ids = set_position(state["target_ids"], index, tokens)
        rows, beams = ops.shape(tokens)[0], tokens.shape[1]
        flat = ops.reshape(target_ids, (-1, self.length))
        logits = self.model({**context, "target_ids": flat}, training=False)["logits"]
        logits = ops.take(logits, index, axis=1)
        return ops.reshape(logits, (rows, beams, logits.shape[-1])), {"target_ids": target_ids}


class CachedSteps:
    """Steps from the keys and values of all tokens so far.

    The source is read once for all beams: it sees no target token, so its hidden states don't
    change.

    Args:
        model: its layers, and the parts before and after them.
        length: tokens of a target.
    """

    def __init__(self, model: WritingLayers, length: int) -> None:
        self.model = model
        self.length = length

    def begin(self, sources: dict, beams: int) -> tuple[dict, dict]:
        mask = ops.cast(sources["padding_mask"], "bool")
        pairs = []
        for layer, hidden in zip(self.model.layers, self.model.read(sources), strict=True):
            attention = cross_attention(layer) or layer._self_attention_layer
            pairs.append((attention._key_dense(hidden), attention._value_dense(hidden)))
        context = {
            "sources": pairs,
            "mask": mask,
            "source_length": ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True),
        }
        return context, empty_cache(pairs, beams, self.length)

    def step(
        self, context: dict, state: dict, tokens: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, dict]:
        hidden = self.model.embed(tokens, index, context["source_length"])
        cache: dict[str, list] = {"keys": [], "values": []}
        for number, layer in enumerate(self.model.layers):
            attention, cross = layer._self_attention_layer, cross_attention(layer)
            source = (*context["sources"][number], context["mask"])
            keys, values = update_cache(state, number, attention, hidden, index)
            cache["keys"].append(keys)
            cache["values"].append(values)
            attended = attend(attention, hidden, None if cross else source, (keys, values, index))
            hidden = layer._self_attention_layer_norm(hidden + attended)
            if cross:
                attended = attend(cross, hidden, source)
                hidden = layer._cross_attention_layer_norm(hidden + attended)
            inner = layer._feedforward_intermediate_dense(hidden)
            inner = layer._feedforward_output_dense(inner)
            hidden = layer._feedforward_layer_norm(hidden + inner)
        return self.model.score(hidden), cache


def cross_attention(layer: keras.layers.Layer) -> keras.layers.Layer | None:
    """Return the attention of a decoder's layer to the source; None: the layer is an encoder's."""
    return getattr(layer, "_cross_attention_layer", None)


def empty_cache(pairs: list[tuple], beams: int, length: int) -> dict:
    """Return zeros `[batch, beams, length, heads, size]` for keys and values of each layer.

    Args:
        pairs: keys and values of the source for each layer.
        beams: hypotheses of each record.
        length: tokens of a target.
    """
    like = pairs[0][0]
    shape = (ops.shape(like)[0], beams, length, *like.shape[2:])
    return {name: [ops.zeros(shape, like.dtype) for _ in pairs] for name in ("keys", "values")}


def update_cache(
    state: dict, number: int, attention: keras.layers.Layer, hidden: tf.Tensor, index: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return keys and values of a layer with those of one more token.

    Args:
        state: the cache of all layers.
        number: of the layer.
        attention: of the layer.
        hidden: what it reads of the token `[batch, beams, width]`.
        index: place of the token.
    """
    start = (0, 0, index, 0, 0)
    keys, values = attention._key_dense(hidden), attention._value_dense(hidden)
    return (
        ops.slice_update(state["keys"][number], start, keys[:, :, None]),
        ops.slice_update(state["values"][number], start, values[:, :, None]),
    )


def attend(
    attention: keras.layers.Layer,
    hidden: tf.Tensor,
    source: tuple | None = None,
    target: tuple | None = None,
) -> tf.Tensor:
    """Return what an attention layer finds, by the weights of the layer itself.

    Args:
        attention: a `MultiHeadAttention`.
        hidden: `[batch, beams, width]` asks.
        source: keys and values `[batch, source, heads, size]` that the beams share, and the mask
            `[batch, source]`.
        target: keys and values `[batch, beams, target, heads, size]` of each beam, and the last
            position that is written.
    """
    queries = attention._query_dense(hidden)
    queries = queries * ops.cast(queries.shape[-1] ** -0.5, queries.dtype)
    scores = []
    if source is not None:
        found = ops.einsum("bkhd,bshd->bkhs", queries, source[0])
        scores.append(ops.where(source[2][:, None, None, :], ops.cast(found, "float32"), MASKED))
    if target is not None:
        found = ops.einsum("bkhd,bkthd->bkht", queries, target[0])
        written = ops.arange(target[0].shape[2]) <= target[2]
        scores.append(ops.where(written, ops.cast(found, "float32"), MASKED))
    # One softmax over both.
    weights = ops.cast(ops.softmax(ops.concatenate(scores, axis=-1), axis=-1), queries.dtype)
    read = 0 if source is None else ops.shape(source[0])[1]
    mixed = 0.0
    if source is not None:
        mixed += ops.einsum("bkhs,bshd->bkhd", weights[..., :read], source[1])
    if target is not None:
        mixed += ops.einsum("bkht,bkthd->bkhd", weights[..., read:], target[1])
    return attention._output_dense(mixed)


def set_position(written: tf.Tensor, index: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Return `written` `[batch, beams, length]` with `tokens` `[batch, beams]` at a position."""
    here = ops.arange(written.shape[2]) == index
    return ops.where(here, tokens[:, :, None], written)
