"""Models that write: a prefix language model, an encoder with a decoder, a pretrained writer.

`unilm`: the layers of a BERT read source and target as one sequence under a mask. Source tokens see
each other; a target token sees the source and the target up to itself. Only two layers of the head
are new: the encoder's token embedding also scores the output. Source: Dong et al. 2019,
https://arxiv.org/abs/1905.03197.

`encoder_decoder`: any encoder, and a new Transformer decoder. Source: Vaswani et al. 2017,
https://arxiv.org/abs/1706.03762.

`pretrained`: the model that `encoder` names writes as it is; needs extras/writers.
"""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import need
from core.encoders.encoder import (
    BertEncoder,
    encoder_inputs,
    hidden_states,
    load_encoder,
    load_tokenizer,
)
from core.fast.transformer import exact_gelu_function
from core.layers.language_model import INITIAL_DEVIATION, TokenLoss, head_layers, prefix_mask
from core.step import Logits, Models, TrainingModel
from generation.steps import WritingLayers
from generation.tokenizers import keep_used_tokens, train_text_tokenizer
from task.records import Example, tokenizer_texts
from task.settings import Settings

HEAD_SIZE = 64  # of the attention of the decoder, as in BERT


def load_tokenizer_and_encoder(
    settings: Settings, examples: Sequence[Example]
) -> tuple[Tokenizer, keras.Model]:
    """Return the tokenizer and the encoder; `keep_tokens` reduces both to the tokens in use.

    Args:
        settings: of the project.
        examples: of the training file.
    """
    tokenizer = load_tokenizer(settings, examples, tokenizer_texts, train_text_tokenizer)
    encoder = load_backbone(settings, tokenizer)
    if settings.keep_tokens == "used" and settings.encoder != "tiny":
        tokenizer, kept = keep_used_tokens(tokenizer, [*tokenizer_texts(examples)])
        encoder = keep_rows(encoder, kept)
    return tokenizer, encoder


def load_backbone(settings: Settings, tokenizer: Tokenizer) -> keras.Model:
    """Return the encoder; for `unilm` it has positions for the target too.

    Args:
        settings: `encoder`, `model`, `max_length`, `target_length`, `tiny_*`.
        tokenizer: of the encoder.

    Raises:
        InputError: the encoder can't write, or reads too few tokens.
    """
    if settings.model == "pretrained":
        return need("writers", "families").load_writer(settings, tokenizer)
    if settings.model != "unilm":
        encoder = load_encoder(settings, tokenizer)
        if "token_ids" not in {tensor.name for tensor in encoder.inputs}:
            raise InputError(
                f"{settings.encoder} is a {type(encoder).__name__}, which reads targets too and "
                'writes by itself: set model = "pretrained", or choose an encoder.'
            )
        return encoder
    both = settings.max_length + settings.target_length
    if settings.encoder == "tiny":
        encoder = load_encoder(settings.model_copy(update={"max_length": both}), tokenizer)
        begin_with_waves(encoder.position_embedding.position_embeddings)
        return encoder
    encoder = load_encoder(settings, tokenizer)
    if not isinstance(encoder, BertEncoder):
        raise InputError(
            f'model = "unilm" needs a BERT, and {settings.encoder} is a {type(encoder).__name__}: '
            'set model = "encoder_decoder", or choose a BERT.'
        )
    if both > encoder.max_sequence_length:
        raise InputError(
            f"max_length + target_length = {both}, but {settings.encoder} has "
            f"{encoder.max_sequence_length} positions for source and target together: lower one."
        )
    return encoder


def begin_with_waves(positions: keras.Variable) -> None:
    """Initialise the position embedding `[length, width]` of a new encoder as sinusoids.

    Vectors of neighbours are alike then, so "the token after this one", which copying needs, is
    learned for all positions at once. Source: Vaswani et al. 2017, section 3.5.
    """
    length, width = positions.shape
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
    positions.assign(INITIAL_DEVIATION * np.sqrt(2) * waves)


def keep_rows(encoder: keras.Model, kept: np.ndarray) -> keras.Model:
    """Return an encoder whose token embedding keeps the rows `kept`."""
    config = {**encoder.get_config(), "vocabulary_size": len(kept)}
    smaller = type(encoder).from_config(config)
    rows = encoder.token_embedding.embeddings.path
    weights = zip(encoder.weights, encoder.get_weights(), strict=True)
    smaller.set_weights([value[kept] if one.path == rows else value for one, value in weights])
    return smaller


def find_positions(mask: tf.Tensor) -> tf.Tensor:
    """Return the position of each token `[batch, length]`; padding is not counted."""
    return ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)


@keras.saving.register_keras_serializable("task")
class PrefixLanguageModel(keras.layers.Layer):
    """The layers of a BERT under the prefix mask: they read a source and write a target.

    Args:
        encoder: the BERT; its token embedding scores the next token, too.
    """

    def __init__(self, encoder: BertEncoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        width = encoder.hidden_dim
        # As in BERT's head, the embedding scores the outputs of these two layers, which are new.
        self.head_dense, self.head_norm = head_layers(width, dtype=self.dtype_policy)
        for layer in (self.head_dense, self.head_norm):
            layer.build((None, None, width))
        self.built = True

    def call(self, token_ids, segment_ids, padding_mask, target_ids, training=None) -> tf.Tensor:
        """Return the logits `[batch, target, vocabulary]` of each target token, by those before it.

        Args:
            token_ids: of the source `[batch, source]`, as are the next two.
            segment_ids: 0.
            padding_mask: 0 where the source has ended.
            target_ids: `[batch, target]`, shifted by one: the begin token comes first.
            training: whether dropout is on.
        """
        ones = ops.ones_like(target_ids)  # padding comes last: no token of the target sees it
        mask = ops.concatenate([padding_mask, ones], axis=1)
        segments = ops.concatenate([segment_ids, ones], axis=1)
        hidden = self.embed(
            ops.concatenate([token_ids, target_ids], axis=1), segments, find_positions(mask)
        )
        hidden = self.encoder.embeddings_dropout(hidden, training=training)
        visible = prefix_mask(segments, mask)
        for layer in self.encoder.transformer_layers:
            hidden = layer(hidden, attention_mask=visible, training=training)
        return self.score(hidden[:, ops.shape(token_ids)[1] :])

    def embed(self, token_ids, segment_ids, positions) -> tf.Tensor:
        """Return the normalised sum of the three embeddings."""
        encoder = self.encoder
        tokens = encoder.token_embedding(token_ids)
        places = encoder.position_embedding(tokens, positions=positions)
        summed = encoder.embeddings_add((tokens, places, encoder.segment_embedding(segment_ids)))
        return encoder.embeddings_layer_norm(summed)

    def score(self, hidden) -> tf.Tensor:
        """Return the logits of hidden states `[..., width]`."""
        return self.encoder.token_embedding(self.head_norm(self.head_dense(hidden)), reverse=True)

    def read(self, sources: dict) -> list[tf.Tensor]:
        """Return the source's hidden states that each layer attends to; they see no target."""
        positions = find_positions(sources["padding_mask"])
        hidden = [self.embed(sources["token_ids"], sources["segment_ids"], positions)]
        mask = ops.cast(sources["padding_mask"], "bool")[:, None, :]
        for layer in self.encoder.transformer_layers[:-1]:
            hidden.append(layer(hidden[-1], attention_mask=mask, training=False))
        return hidden

    def embed_next(self, tokens, index, source_length) -> tf.Tensor:
        """Return the embeddings of target tokens; their positions follow those of the source."""
        places = ops.broadcast_to(source_length + index, ops.shape(tokens))
        return self.embed(tokens, ops.ones_like(tokens), places)

    def compute_output_spec(
        self, token_ids, segment_ids, padding_mask, target_ids, training=None
    ) -> keras.KerasTensor:
        shape = (*target_ids.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config: dict) -> "PrefixLanguageModel":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


def build_models(encoder: keras.Model, settings: Settings) -> Models:
    """Return the training model (output: the loss) and the inference model (output: logits).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        settings: `model`, `target_length`, `decoder_layers`, `dropout`, `label_smoothing`.
    """
    inputs = encoder_inputs(encoder)
    inputs["target_ids"] = keras.Input((None,), dtype="int32", name="target_ids")
    if settings.model == "unilm":
        logits = PrefixLanguageModel(encoder, name="unilm")(**inputs)
    elif settings.model == "pretrained":
        logits = encoder.write(inputs)
    else:
        logits = decoder_logits(encoder, inputs, settings)
    inference = keras.Model(inputs, {"logits": logits}, name="inference")
    if settings.packs:  # the same layers are trained on rows of several examples
        inputs, logits = need("writers", "packing").write_rows(encoder, inputs)

    labels = keras.Input((None,), dtype="int32", name="target_labels")
    loss = TokenLoss(settings.label_smoothing, name="token_loss")(logits, labels)
    training = TrainingModel(
        {**inputs, "target_labels": labels}, {"token_loss": loss}, name="training"
    )
    compared = (Logits(logits, "softmax", labels="target_labels"),)  # read by R-Drop and the like
    return Models(training, inference, encoder, compared)


def decoder_logits(encoder: keras.Model, inputs: dict, settings: Settings) -> keras.KerasTensor:
    """Return the logits of the target, from a decoder that attends to the encoder's output.

    Args:
        encoder: any that has a `token_embedding`.
        inputs: by name: those of the encoder, and `target_ids`.
        settings: `target_length`, `decoder_layers`, `dropout`.
    """
    own = {tensor.name: inputs[tensor.name] for tensor in encoder.inputs}
    source_hidden = hidden_states(encoder, own)
    width = source_hidden.shape[-1]
    # Each draws its seed when it is created, so their order decides the initial weights. KerasHub
    # clones that of the kernels for each kernel, with another seed.
    kernels, rows, positions = (
        keras.initializers.TruncatedNormal(stddev=INITIAL_DEVIATION) for _ in range(3)
    )
    embedding = keras_hub.layers.ReversibleEmbedding(
        encoder.token_embedding.input_dim,
        width,
        embeddings_initializer=rows,
        name="target_embedding",
    )
    tokens = embedding(inputs["target_ids"])
    if encoder.token_embedding.output_dim == width:
        # It starts as the encoder's; then each learns by itself.
        embedding.embeddings.assign(encoder.token_embedding.embeddings)
    places = keras_hub.layers.PositionEmbedding(
        settings.target_length, initializer=positions, name="target_positions"
    )(tokens)
    hidden = keras.layers.Add(name="target_add")((tokens, places))
    hidden = keras.layers.LayerNormalization(epsilon=1e-12, name="target_norm")(hidden)
    hidden = keras.layers.Dropout(settings.dropout, name="target_dropout")(hidden)
    for number in range(settings.decoder_layers):
        hidden = keras_hub.layers.TransformerDecoder(
            4 * width,
            num_heads=max(1, width // HEAD_SIZE),
            dropout=settings.dropout,
            activation=exact_gelu_function,
            layer_norm_epsilon=1e-12,
            kernel_initializer=kernels,
            name=f"decoder_layer_{number}",
        )(hidden, source_hidden, encoder_padding_mask=inputs["padding_mask"])
    for layer in head_layers(width):
        hidden = layer(hidden)
    return embedding(hidden, reverse=True)


def writing_layers(model: keras.Model) -> WritingLayers:
    """Return the parts of an inference model that the cache of generation calls.

    If you change how the layers compute, change this too, or set `cache = false`.
    """
    for layer in model.layers:
        if hasattr(layer, "steps"):  # a pretrained writer computes the steps by itself
            return layer
    if any(layer.name == "unilm" for layer in model.layers):
        unilm = model.get_layer("unilm")
        layers = unilm.encoder.transformer_layers
        return WritingLayers(layers, unilm.read, unilm.embed_next, unilm.score)
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
