"""Writers with encoder and decoder: BART, T5 and similar models."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from extras.writers.decoder import embedding
from extras.writers.layers import (
    Block,
    RelativeBias,
    empty_cache,
    find_positions,
    normalization,
)


@keras.saving.register_keras_serializable("writers")
class EncoderDecoder(keras.Model):
    """An encoder that reads a source, and a decoder that writes a target.

    Args:
        vocabulary_size: tokens.
        hidden_dim: width of the hidden states.
        encoder_blocks: options of each `Block` of the encoder.
        decoder_blocks: options of each `Block` of the decoder.
        norm: options of the normalizations outside of layers.
        norm_place: "embeddings" normalizes embeddings (BART); "end" the last outputs (T5).
        max_sequence_length: rows of the position tables; 0: none.
        relative: options of `RelativeBias` except `both_ways`; None: no bias.
        tied: whether the token table also scores tokens.
        embedding_scale: factor of embeddings.
        score_scale: factor of the scored hidden states.
        score_bias: whether the logits have an untrained bias.
        dropout: of embeddings.
        before: tokens that the decoder reads before a target.
        begin: token from which the first token of a target is predicted.
        ends: the tokens that end a text; the first is trained.
        described: the config.json that was read, for an export.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        hidden_dim: int,
        encoder_blocks: list[dict],
        decoder_blocks: list[dict],
        norm: dict,
        norm_place: str,
        max_sequence_length: int = 0,
        relative: dict | None = None,
        tied: bool = True,
        embedding_scale: float = 1.0,
        score_scale: float = 1.0,
        score_bias: bool = False,
        dropout: float = 0.0,
        before: list[int],
        begin: int,
        ends: list[int],
        described: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options = {
            "vocabulary_size": vocabulary_size,
            "hidden_dim": hidden_dim,
            "encoder_blocks": encoder_blocks,
            "decoder_blocks": decoder_blocks,
            "norm": norm,
            "norm_place": norm_place,
            "max_sequence_length": max_sequence_length,
            "relative": relative,
            "tied": tied,
            "embedding_scale": embedding_scale,
            "score_scale": score_scale,
            "score_bias": score_bias,
            "dropout": dropout,
            "before": before,
            "begin": begin,
            "ends": ends,
            "described": described,
        }
        self.vocabulary_size, self.hidden_dim = vocabulary_size, hidden_dim
        self.max_sequence_length = max_sequence_length
        self.embedding_scale, self.score_scale = embedding_scale, score_scale
        self.before, self.begin, self.ends = list(before), begin, list(ends)
        dtype = self.dtype_policy
        self.token_embedding = embedding(
            vocabulary_size, hidden_dim, "token_embedding", dtype, tied
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")
        self.readers = [
            Block(hidden_dim, **options, dtype=dtype, name=f"encoder_layer_{number}")
            for number, options in enumerate(encoder_blocks)
        ]
        self.writers = [
            Block(hidden_dim, **options, cross=True, dtype=dtype, name=f"decoder_layer_{number}")
            for number, options in enumerate(decoder_blocks)
        ]
        self.norm_place = norm_place
        # Layers outside of the blocks of a side: name -> layer.
        self.norms, self.positions, self.distances = ({}, {}, {})
        for side in ("encoder", "decoder"):
            self.norms[side] = normalization(norm, f"{side}_norm", dtype)
            if max_sequence_length:
                self.positions[side] = embedding(
                    max_sequence_length, hidden_dim, f"{side}_positions", dtype
                )
            if relative:
                both_ways = side == "encoder"
                self.distances[side] = RelativeBias(
                    **relative, both_ways=both_ways, dtype=dtype, name=f"{side}_distances"
                )
        self.has_score_bias, self.score_bias = score_bias, None
        self.sources = [
            keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")
        ]
        self.build()

    def build(self, input_shape: Any = None) -> None:
        if self.norms["encoder"].built:
            return
        hidden_shape = (None, None, self.hidden_dim)
        for table in (self.token_embedding, *self.positions.values()):
            table.build((None, None))
        for layer in (*self.transformer_layers, *self.norms.values()):
            layer.build(hidden_shape)
        for layer in self.distances.values():
            layer.build((None,))
        if self.has_score_bias:
            self.score_bias = self.add_weight(
                (self.vocabulary_size,), initializer="zeros", trainable=False, name="score_bias"
            )
        self.built = True

    @property
    def inputs(self) -> list[keras.KerasTensor]:
        """The inputs of a source."""
        return self.sources

    @property
    def transformer_layers(self) -> list[Block]:
        """The layers of both sides."""
        return [*self.readers, *self.writers]

    def call(self, inputs, training: bool | None = None) -> tf.Tensor:
        """Return the hidden states of the encoder, `[batch, source, width]`."""
        return self.read(inputs["token_ids"], inputs["padding_mask"], training)

    def read(self, token_ids, padding_mask, training: bool | None = None) -> tf.Tensor:
        """Return hidden states of sources `[batch, source]`; padding may be on either side."""
        hidden = self.embed("encoder", token_ids, find_positions(padding_mask), training)
        visible = ops.cast(padding_mask, "bool")[:, None, :]
        places = ops.arange(ops.shape(token_ids)[1])
        bias = self.distance_bias("encoder", places, places)
        for layer in self.readers:
            hidden = layer(hidden, visible=visible, bias=bias, training=training)
        return self.finish("encoder", hidden)

    def decode(self, target_ids, memory, padding_mask, training: bool | None = None) -> tf.Tensor:
        """Return the next-token logits `[batch, target, vocabulary]` of a target.

        Args:
            target_ids: `[batch, target]`.
            memory: from `read`.
            padding_mask: of the source.
            training: whether dropout is on.
        """
        rows = [ops.full_like(target_ids[:, :1], token) for token in self.before]
        target_ids = ops.concatenate([*rows, target_ids], axis=1)
        places = ops.arange(ops.shape(target_ids)[1])
        hidden = self.embed("decoder", target_ids, places[None], training)
        visible = (places[None, :] <= places[:, None])[None]
        bias = self.distance_bias("decoder", places, places)
        source = ops.cast(padding_mask, "bool")[:, None, :]
        for layer in self.writers:
            hidden = layer(
                hidden,
                visible=visible,
                bias=bias,
                memory=memory,
                memory_visible=source,
                training=training,
            )
        return self.score(self.finish("decoder", hidden)[:, len(self.before) :])

    def embed(self, side: str, token_ids, positions, training: bool | None = None) -> tf.Tensor:
        """Return the inputs of the first layer of a side."""
        hidden = self.token_embedding(token_ids)
        if self.embedding_scale != 1.0:
            hidden *= ops.cast(self.embedding_scale, hidden.dtype)
        if self.max_sequence_length:
            hidden += self.positions[side](positions)
        if self.norm_place == "embeddings":
            hidden = self.norms[side](hidden)
        return self.dropout_layer(hidden, training=training)

    def distance_bias(self, side: str, queries, keys) -> tf.Tensor | None:
        """Return the bias of the scores by distance; None: none."""
        return self.distances[side](queries, keys) if self.distances else None

    def finish(self, side: str, hidden) -> tf.Tensor:
        """Return the final outputs of a side from its last layer."""
        return self.norms[side](hidden) if self.norm_place == "end" else hidden

    def score(self, hidden) -> tf.Tensor:
        """Return the logits of hidden states `[..., width]`."""
        if self.score_scale != 1.0:
            hidden *= ops.cast(self.score_scale, hidden.dtype)
        logits = self.token_embedding(hidden, reverse=True)
        if self.score_bias is None:
            return logits
        return logits + ops.cast(self.score_bias, logits.dtype)

    @property
    def frame(self) -> tuple[int, int]:
        """The token before the first token of a target, and the token that ends it."""
        return self.begin, self.ends[0]

    @property
    def other_ends(self) -> list[int]:
        """The other tokens that end a text."""
        return self.ends[1:]

    def write(self, inputs: dict) -> keras.KerasTensor:
        """Return the logits `[batch, target, vocabulary]`; inputs as in `Decoder.write`."""
        return TargetWriter(self, name="writer")(**inputs)

    def get_config(self) -> dict:
        return {"name": self.name, "dtype": self.dtype_policy.name, **self.options}


@keras.saving.register_keras_serializable("writers")
class TargetWriter(keras.layers.Layer):
    """A decoder that writes a target while it attends to the encoded source.

    Args:
        encoder: an `EncoderDecoder`.
    """

    def __init__(self, encoder: EncoderDecoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.built = True

    def call(self, token_ids, padding_mask, target_ids, training=None) -> tf.Tensor:
        """Return the logits `[batch, target, vocabulary]`; arguments as in `PromptWriter`."""
        memory = self.encoder.read(token_ids, padding_mask, training)
        return self.encoder.decode(target_ids, memory, padding_mask, training)

    def compute_output_spec(
        self, token_ids, padding_mask, target_ids, training=None
    ) -> keras.KerasTensor:
        shape = (*target_ids.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def steps(self, length: int) -> "TargetSteps":
        """Return the steps of a search for targets with a maximum number of tokens."""
        return TargetSteps(self.encoder, length)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config: dict) -> "TargetWriter":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


class TargetSteps:
    """Steps of a search with cached keys and values of source and target.

    Args:
        encoder: an `EncoderDecoder`.
        length: tokens of a target.
    """

    def __init__(self, encoder: EncoderDecoder, length: int) -> None:
        self.encoder, self.length = encoder, length + len(encoder.before)

    def begin(self, sources: dict, beams: int) -> tuple[dict, list]:
        """Read the sources once; the beams share their keys and values."""
        encoder, mask = self.encoder, sources["padding_mask"]
        memory = encoder.read(sources["token_ids"], mask, False)
        context = {
            "pairs": [layer.cross.pair(memory, None) for layer in encoder.writers],
            "mask": tf.cast(mask, tf.bool),
        }
        rows = tf.shape(mask)[0]
        state = [empty_cache(layer, rows, beams, self.length) for layer in encoder.writers]
        for place, token in enumerate(encoder.before):
            tokens = tf.fill((rows, beams), token)
            _, state = self.advance(context, state, tokens, tf.constant(place))
        return context, state

    def step(
        self, context: dict, state: list, tokens: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, list]:
        """Return the logits `[batch, beams, vocabulary]` after `tokens`, and the next state."""
        place = index + len(self.encoder.before)
        hidden, longer = self.advance(context, state, tokens, place)
        return self.encoder.score(self.encoder.finish("decoder", hidden)), longer

    def advance(
        self, context: dict, state: list, tokens: tf.Tensor, place: tf.Tensor
    ) -> tuple[tf.Tensor, list]:
        """Return the last layer's outputs for tokens at a place, and the next state."""
        encoder = self.encoder
        positions = tf.broadcast_to(place, tf.shape(tokens))
        hidden, longer = encoder.embed("decoder", tokens, positions, False), []
        bias = encoder.distance_bias("decoder", place[None], tf.range(self.length))
        bias = None if bias is None else bias[:, 0]
        for number, layer in enumerate(encoder.writers):
            memory = (*context["pairs"][number], context["mask"])
            hidden, cache = layer.step(hidden, state[number], place, bias=bias, memory=memory)
            longer.append(cache)
        return hidden, longer
