"""Decoder-only writers: source and target are one sequence."""

from typing import Any

import keras
import keras_hub
import tensorflow as tf
from keras import ops

from extras.writers.layers import (
    INITIAL_DEVIATION,
    Block,
    empty_cache,
    find_positions,
    normalization,
    see_before,
)


def embedding(rows: int, width: int, name: str, dtype: Any, tied: bool = True) -> Any:
    """Return an embedding table of tokens or positions that can also score them."""
    initializer = keras.initializers.RandomNormal(stddev=INITIAL_DEVIATION)
    return keras_hub.layers.ReversibleEmbedding(
        rows, width, tie_weights=tied, embeddings_initializer=initializer, dtype=dtype, name=name
    )


@keras.saving.register_keras_serializable("writers")
class Decoder(keras_hub.models.Backbone):
    """A decoder-only language model: tokens to causal hidden states.

    Padding may be on either side, or between source and target: positions count only tokens.

    Args:
        vocabulary_size: tokens.
        hidden_dim: width of the hidden states.
        blocks: options of each `Block`.
        norm: options of the last normalization.
        max_sequence_length: maximum tokens of source and target together.
        has_positions: whether positions have a table instead of rotations.
        tied: whether the token table also scores tokens.
        embedding_scale: factor of embeddings.
        dropout: of embeddings.
        ends: the tokens that end a text; the first is trained.
        described: the config.json that was read, for an export.
        answers: the token that stands for each label of a classifier; None: it has its own head.
    """

    pooling = "last"  # for text classification: no other token has read the whole text

    def __init__(
        self,
        *,
        vocabulary_size: int,
        hidden_dim: int,
        blocks: list[dict],
        norm: dict,
        max_sequence_length: int,
        has_positions: bool = False,
        tied: bool = True,
        embedding_scale: float = 1.0,
        dropout: float = 0.0,
        ends: list[int],
        described: dict | None = None,
        answers: dict[str, int] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        self.options = {
            "vocabulary_size": vocabulary_size,
            "hidden_dim": hidden_dim,
            "blocks": blocks,
            "norm": norm,
            "max_sequence_length": max_sequence_length,
            "has_positions": has_positions,
            "tied": tied,
            "embedding_scale": embedding_scale,
            "dropout": dropout,
            "ends": ends,
            "described": described,
            "answers": answers,
        }
        self.vocabulary_size, self.hidden_dim = vocabulary_size, hidden_dim
        self.max_sequence_length, self.ends, self.answers = max_sequence_length, ends, answers
        self.embedding_scale, self.num_layers = embedding_scale, len(blocks)
        self.token_embedding = self.make_table(vocabulary_size, hidden_dim, tied, norm, dtype)
        self.position_embedding: Any = None
        if has_positions:
            self.position_embedding = embedding(
                max_sequence_length, hidden_dim, "position_embedding", dtype
            )
        self.embeddings_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="embeddings_dropout"
        )
        self.transformer_layers = [
            Block(hidden_dim, **options, dtype=dtype, name=f"transformer_layer_{number}")
            for number, options in enumerate(blocks)
        ]
        self.final_norm = normalization(norm, "final_norm", dtype)
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("token_ids", "padding_mask")
        }
        super().__init__(inputs=inputs, outputs=self.transform(**inputs), dtype=dtype, **kwargs)

    def transform(
        self, token_ids, padding_mask, training: bool | None = None, examples: Any = None
    ) -> Any:
        """Return hidden states `[batch, length, width]` of tokens `[batch, length]`.

        Args:
            token_ids: of one or several examples per row.
            padding_mask: 0 for padding.
            training: whether dropout is on.
            examples: as in `find_positions`; None: one example per row.
        """
        positions = find_positions(padding_mask, examples)
        hidden = self.embeddings_dropout(self.embed(token_ids, positions), training=training)
        reaches = {layer.reach for layer in self.transformer_layers}
        visible = {reach: see_before(positions, padding_mask, reach, examples) for reach in reaches}
        for layer in self.transformer_layers:
            hidden = layer(
                hidden, visible=visible[layer.reach], positions=positions, training=training
            )
        return self.finish(hidden)

    def make_table(self, rows: int, width: int, tied: bool, norm: dict, dtype: Any) -> Any:
        """Return the token table; arguments as in `embedding`, and `norm` of the decoder."""
        return embedding(rows, width, "token_embedding", dtype, tied)

    def finish(self, hidden) -> Any:
        """Return the hidden states of the last layer's outputs."""
        return self.final_norm(hidden)

    def embed(self, token_ids, positions) -> Any:
        """Return the inputs of the first layer."""
        hidden = self.token_embedding(token_ids)
        if self.embedding_scale != 1.0:
            hidden *= ops.cast(self.embedding_scale, hidden.dtype)
        if self.position_embedding is not None:
            hidden += self.position_embedding(positions)
        return hidden

    def score(self, hidden) -> Any:
        """Return the logits of hidden states `[..., width]`."""
        return self.token_embedding(hidden, reverse=True)

    @property
    def frame(self) -> tuple[int, int]:
        """The token that begins a target, which no model reads, and the token that ends it."""
        return self.ends[0], self.ends[0]

    @property
    def other_ends(self) -> list[int]:
        """The other tokens that end a text."""
        return self.ends[1:]

    def write(self, inputs: dict) -> keras.KerasTensor:
        """Return the next-token logits `[batch, target, vocabulary]` of a target.

        Args:
            inputs: `token_ids` and `padding_mask` `[batch, source]`, and `target_ids`.
        """
        return PromptWriter(self, name="writer")(**inputs)

    def get_config(self) -> dict:
        return {**super().get_config(), **self.options}


def split_last(token_ids: Any, padding_mask: Any) -> tuple[Any, Any]:
    """Return the last token of each source `[batch, 1]`, and the mask of those before it."""
    mask = ops.cast(padding_mask, "int32")
    places = ops.arange(ops.shape(mask)[1])[None]
    last = ops.max(places * mask, axis=1, keepdims=True)
    return ops.take_along_axis(token_ids, last, axis=1), mask * ops.cast(places != last, "int32")


@keras.saving.register_keras_serializable("writers")
class PromptWriter(keras.layers.Layer):
    """A decoder that reads a source and continues with the target; also for several examples.

    The first token of the target is predicted from the last token of the source, which replaces the
    token that begins a target.

    Args:
        encoder: a `Decoder`.
    """

    def __init__(self, encoder: Decoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.built = True

    def call(
        self,
        token_ids,
        padding_mask,
        target_ids,
        source_examples=None,
        target_examples=None,
        training=None,
    ) -> tf.Tensor:
        """Return the logits `[batch, target, vocabulary]`.

        Args:
            token_ids: of the source `[batch, source]`.
            padding_mask: 0 for padding of the source, on either side.
            target_ids: `[batch, target]`; the first column is not read. In a row of several
                examples each target begins with the last token of its source, which occurs only
                there.
            source_examples: the example of each token in its row, from 1 on, and 0 for padding;
                None: one example per row.
            target_examples: the same for `target_ids`.
            training: whether dropout is on.
        """
        examples = None
        if source_examples is None:
            begin, mask = split_last(token_ids, padding_mask)
            target_ids = ops.concatenate([begin, target_ids[:, 1:]], axis=1)
            mask = ops.concatenate([mask, ops.ones_like(target_ids)], axis=1)
        else:
            examples = ops.concatenate([source_examples, target_examples], axis=1)
            mask = ops.cast(examples > 0, "int32")
        ids = ops.concatenate([token_ids, target_ids], axis=1)
        hidden = self.encoder.transform(ids, mask, training, examples)
        return self.encoder.score(hidden[:, ops.shape(token_ids)[1] :])

    def compute_output_spec(
        self,
        token_ids,
        padding_mask,
        target_ids,
        source_examples=None,
        target_examples=None,
        training=None,
    ) -> keras.KerasTensor:
        shape = (*target_ids.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def steps(self, length: int) -> "PromptSteps":
        """Return the steps of a search for targets with a maximum number of tokens."""
        return PromptSteps(self.encoder, length)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config: dict) -> "PromptWriter":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


class PromptSteps:
    """Steps of a search with cached keys and values of source and target.

    Args:
        encoder: a `Decoder`.
        length: tokens of a target.
    """

    def __init__(self, encoder: Decoder, length: int) -> None:
        self.encoder, self.length = encoder, length

    def begin(self, sources: dict, beams: int) -> tuple[dict, list]:
        """Read the sources except their last tokens; the beams share the cache."""
        encoder, token_ids = self.encoder, sources["token_ids"]
        begin, mask = split_last(token_ids, sources["padding_mask"])
        positions = find_positions(mask)
        hidden, pairs = encoder.embed(token_ids, positions), []
        for layer in encoder.transformer_layers:
            visible = see_before(positions, mask, layer.reach)
            hidden, pair = layer.read(hidden, visible, positions)
            pairs.append(pair)
        context = {
            "pairs": pairs,
            "mask": tf.cast(mask, tf.bool),
            "positions": positions,
            "begin": begin,
            "source_length": tf.reduce_sum(mask, axis=1, keepdims=True),
        }
        rows = tf.shape(token_ids)[0]
        layers = encoder.transformer_layers
        return context, [empty_cache(layer, rows, beams, self.length) for layer in layers]

    def step(
        self, context: dict, state: list, tokens: tf.Tensor, index: tf.Tensor
    ) -> tuple[tf.Tensor, list]:
        """Return the logits `[batch, beams, vocabulary]` after `tokens`, and the next state."""
        tokens = tf.where(index == 0, context["begin"], tokens)
        position = context["source_length"] + index
        positions = tf.broadcast_to(position, tf.shape(tokens))
        hidden, longer = self.encoder.embed(tokens, positions), []
        for number, layer in enumerate(self.encoder.transformer_layers):
            visible = context["mask"]
            if layer.reach:
                visible &= position - context["positions"] < layer.reach
            source = (*context["pairs"][number], visible)
            hidden, cache = layer.step(hidden, state[number], index, positions, source=source)
            longer.append(cache)
        return self.encoder.score(self.encoder.finish(hidden)), longer
