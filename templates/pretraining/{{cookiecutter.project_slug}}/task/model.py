"""Models that predict tokens: an encoder with its head, or a writer; and the sums of their scores.

The head is that of BERT: Dense, GELU and LayerNormalization, then the token embedding of the
encoder and a bias score the vocabulary. Source: Devlin et al. 2019,
https://arxiv.org/abs/1810.04805. Other families need extras/encoders; a BART or a decoder needs
extras/writers.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import need
from core.encoders.encoder import BertEncoder, load_encoder, load_tokenizer
from core.layers.language_model import TokenLoss, head_layers, prefix_mask
from core.step import Logits, Models, TrainingModel
from export_formats.hugging_face import head_module
from task.settings import Settings

BEST_TOKENS = 3  # likeliest tokens of each prediction, for the report
HEAD_SIZE = 64  # of attention, as in BERT


def load_backbone(settings: Settings, tokenizer: Tokenizer) -> keras.Model:
    """Return the encoder or the writer to train: a new one, or a pretrained one.

    Args:
        settings: `objective`, `encoder`, `tiny_layers`, `tiny_width`, `max_length`, `dropout`,
            `attention_dropout`.
        tokenizer: that the shards were written with.

    Raises:
        InputError: no such encoder, or not for this objective; or its tokens differ from those of
            the tokenizer.
    """
    if settings.encoder == "tiny" and settings.objective not in ("denoising", "replaced"):
        return BertEncoder(
            vocabulary_size=tokenizer.get_vocab_size(),
            num_layers=settings.tiny_layers,
            num_heads=max(1, settings.tiny_width // HEAD_SIZE),
            hidden_dim=settings.tiny_width,
            intermediate_dim=4 * settings.tiny_width,
            max_sequence_length=settings.max_length,
            dropout=settings.dropout,
            attention_dropout=settings.attention_dropout,
            # The GELU of KerasHub's own BertBackbone, which reads the exported preset.
            exact_gelu=False,
            name="encoder",
        )
    if settings.objective == "denoising":
        writer = need("writers", "bart").load_writer(settings, tokenizer)
        check_tokens(settings, tokenizer)
        return writer
    check_tokens(settings, tokenizer)
    encoder = load_encoder(settings, tokenizer)
    # A decoder of extras/writers has `write`; any other family than BERT needs extras/encoders.
    other = not isinstance(encoder, BertEncoder) and not hasattr(encoder, "write")
    if other or settings.objective == "replaced":
        need("encoders", "language_model").check_encoder(encoder, settings)
    return encoder


def check_tokens(settings: Settings, tokenizer: Tokenizer) -> None:
    """Refuse shards that were prepared with other tokens than `encoder` has."""
    if settings.encoder == "tiny":
        return
    # `load_tokenizer` reads only the setting `encoder`, unless that is tiny.
    known = load_tokenizer(settings, [])  # type: ignore[arg-type]
    if known.get_vocab() != tokenizer.get_vocab():
        raise InputError(
            f"the shards were prepared with other tokens than {settings.encoder} has: run "
            f"python prepare.py --encoder {settings.encoder} --overwrite true."
        )


@keras.saving.register_keras_serializable("task")
class LanguageModel(keras.layers.Layer):
    """A BERT whose attention mask follows the objective, and its head.

    Args:
        encoder: the BERT; its token embedding scores the vocabulary, too.
        objective: `masked`: a token sees all others; `causal`: only those before it; `unilm`: the
            first part of the text, and the tokens before it in the second.
    """

    def __init__(self, encoder: BertEncoder, objective: str = "masked", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.objective = objective
        width = encoder.hidden_dim
        self.head_dense, self.head_norm = head_layers(width, encoder.gelu, dtype=self.dtype_policy)
        self.head_norm.epsilon = encoder.embeddings_layer_norm.epsilon
        for layer in (self.head_dense, self.head_norm):
            layer.build((None, None, width))
        self.bias = self.add_weight(
            (encoder.vocabulary_size,), initializer="zeros", name="vocabulary_bias"
        )
        self.built = True

    def call(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> tf.Tensor:
        """Return the logits `[batch, slots, vocabulary]` of the predicted tokens.

        Args:
            token_ids: the input `[batch, length]`, as are `segment_ids` and `padding_mask`.
            segment_ids: 1 in the second part of `unilm`, else 0.
            padding_mask: 0 behind the end of the text.
            masked_positions: positions that predict a token `[batch, slots]`.
            training: whether dropout is on.
        """
        hidden = self.read(token_ids, segment_ids, padding_mask, training)
        # A matmul instead of a gather: its gradient is a matmul too, not a scattered sum.
        places = ops.one_hot(masked_positions, ops.shape(token_ids)[1], dtype=hidden.dtype)
        hidden = self.head_norm(self.head_dense(ops.matmul(places, hidden)))
        logits = self.encoder.token_embedding(hidden, reverse=True)
        return logits + ops.cast(self.bias, logits.dtype)

    def read(self, token_ids, segment_ids, padding_mask, training=None) -> tf.Tensor:
        """Return the hidden states `[batch, length, width]`."""
        encoder = self.encoder
        tokens = encoder.token_embedding(token_ids)
        places = encoder.position_embedding(tokens)
        hidden = encoder.embeddings_add((tokens, places, encoder.segment_embedding(segment_ids)))
        hidden = encoder.embeddings_layer_norm(hidden)
        hidden = encoder.embeddings_dropout(hidden, training=training)
        visible = self.visible(segment_ids, padding_mask)
        for layer in encoder.transformer_layers:
            hidden = layer(hidden, attention_mask=visible, training=training)
        return hidden

    def visible(self, segment_ids, padding_mask) -> tf.Tensor:
        """Return the attention mask `[batch, query or 1, key]`."""
        if self.objective == "masked":
            return ops.cast(padding_mask, "bool")[:, None, :]
        # Without a first part, the prefix mask lets each token see only those before it.
        parts = ops.ones_like(segment_ids) if self.objective == "causal" else segment_ids
        return prefix_mask(parts, padding_mask)

    def compute_output_spec(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> keras.KerasTensor:
        shape = (*masked_positions.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder, "objective": self.objective}

    @classmethod
    def from_config(cls, config: dict) -> "LanguageModel":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


@keras.saving.register_keras_serializable("task")
class TokenScores(keras.layers.Layer):
    """Sums over the predicted tokens of a text, from which scores follow, and the likeliest tokens.

    Args:
        best: how many tokens are kept of each prediction.
    """

    def __init__(self, best: int = BEST_TOKENS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.best = best

    def call(self, logits, labels) -> dict[str, tf.Tensor]:
        """Return `surprise` and `correct` `[batch]`, and the likeliest `tokens`.

        Args:
            logits: `[batch, slots, vocabulary]`.
            labels: `[batch, slots]`; below 0 where there is nothing to predict.

        Returns:
            The sum of -log p of the labels, the number of labels that are the likeliest token, and
            the tokens `[batch, slots, best]`, the likeliest first.
        """
        logits = ops.cast(logits, "float32")
        used = ops.cast(labels >= 0, "float32")
        losses = ops.sparse_categorical_crossentropy(
            ops.maximum(labels, 0), logits, from_logits=True
        )
        tokens = ops.top_k(logits, min(self.best, logits.shape[-1]))[1]
        right = ops.cast(ops.equal(tokens[..., 0], ops.cast(labels, tokens.dtype)), "float32")
        return {
            "surprise": ops.sum(losses * used, axis=1),
            "correct": ops.sum(right * used, axis=1),
            "tokens": tokens,
        }

    def compute_output_spec(self, logits, labels) -> dict[str, keras.KerasTensor]:
        batch, slots = labels.shape
        return {
            "surprise": keras.KerasTensor((batch,), dtype="float32"),
            "correct": keras.KerasTensor((batch,), dtype="float32"),
            "tokens": keras.KerasTensor((batch, slots, min(self.best, logits.shape[-1])), "int32"),
        }

    def get_config(self) -> dict:
        return {**super().get_config(), "best": self.best}


def build_models(encoder: keras.Model, settings: Settings) -> Models:
    """Return the training model (output: the loss) and the inference model (output: sums).

    Both share the encoder, the head and all inputs.

    Args:
        encoder: from `load_backbone`.
        settings: `objective`.
    """
    writes = settings.objective == "denoising"
    if writes:
        names = ["token_ids", "padding_mask", "target_ids"]
    else:
        names = ["token_ids", "segment_ids", "padding_mask", "masked_positions"]
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    labels = keras.Input((None,), dtype="int32", name="masked_labels")
    all_inputs = {**inputs, "masked_labels": labels}

    if writes:
        logits = encoder.write(inputs)
    else:
        is_bert = isinstance(encoder, BertEncoder)
        kind = LanguageModel if is_bert else head_module(encoder).layer_of(settings.objective)
        logits = kind(encoder, settings.objective, name="language_model")(**inputs)
    loss = TokenLoss(name="token_loss")(logits, labels)
    scores = TokenScores(name="token_scores")(logits, labels)
    return Models(
        TrainingModel(all_inputs, {"token_loss": loss}, name="training"),
        keras.Model(all_inputs, scores, name="inference"),
        encoder,
        compared=(Logits(logits, "softmax", labels="masked_labels"),),
    )


def language_model(model: keras.Model) -> LanguageModel:
    """Return the encoder and its head, which the training and the inference model share."""
    return model.get_layer("language_model")
