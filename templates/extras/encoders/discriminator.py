"""Replaced tokens for ELECTRA and DeBERTa-v3: which tokens of a text are not the original ones?

Some tokens are replaced by others, and the discriminator tells for each token whether it was. Its
answers are two classes, original and replaced, so that losses and scores are those of tokens: the
cross-entropy of a softmax over 0 and z is the binary cross-entropy of z. Source: Clark et al. 2020,
https://arxiv.org/abs/2003.10555; for DeBERTa-v3 He et al. 2021, https://arxiv.org/abs/2111.09543.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.fast.transformer import LayerNormalization
from extras.encoders.deberta import Deberta
from extras.encoders.loading import has_weights, read_weights
from extras.encoders.naming import Names, Tensors, describe_encoder, describe_tokenizer
from extras.encoders.postnorm import (
    PostNormEncoder,
    activation_function,
    assign_pair,
    initializer,
)
from extras.encoders.weights import Weights

NO_TOKEN = -1  # behind the end of a text
CLASSES = ("original", "replaced")
# Prefix of the encoder, prefix of the head and name of its last layer, class of transformers.
OF_ELECTRA = ("electra.", "discriminator_predictions", "dense_prediction", "ElectraForPreTraining")
# No class of transformers has the head, which the published files have.
OF_DEBERTA = ("deberta.", "mask_predictions", "classifier", "DebertaV2Model")


@keras.saving.register_keras_serializable("encoders")
class Discriminator(keras.layers.Layer):
    """An encoder that tells for each token whether it was replaced.

    Args:
        encoder: an ELECTRA, or a DeBERTa-v3, whose head adds the state of the first token.
        objective: `replaced`, the only one.
    """

    def __init__(self, encoder: Any, objective: str = "replaced", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder, self.objective = encoder, objective
        options = {"kernel_initializer": initializer(), "dtype": self.dtype_policy}
        width = encoder.hidden_dim
        activation = activation_function(encoder.activation)
        self.head_dense = keras.layers.Dense(width, activation, name="head_dense", **options)
        self.head_score = keras.layers.Dense(1, name="head_score", **options)
        self.head_norm: Any = None
        if isinstance(encoder, Deberta):
            epsilon = encoder.layer_norm_epsilon
            self.head_norm = LayerNormalization(
                epsilon=epsilon, dtype=self.dtype_policy, name="head_norm"
            )
            self.head_norm.build((None, None, width))
        for layer in (self.head_dense, self.head_score):
            layer.build((None, None, width))
        self.built = True

    def call(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> tf.Tensor:
        """Return the logits `[batch, length, 2]` of `CLASSES` for each token.

        Args:
            token_ids: with replaced tokens `[batch, length]`, as are all others.
            segment_ids: 0, if the encoder has segments.
            padding_mask: 0 behind the end of a text.
            masked_positions: all positions, in order; not read.
            training: whether dropout is on.
        """
        given = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
        inputs = {tensor.name: given[tensor.name] for tensor in self.encoder.inputs}
        hidden = self.encoder(inputs, training=training)
        if self.head_norm is not None:
            hidden = self.head_norm(hidden + hidden[:, :1])
        scores = self.head_score(self.head_dense(hidden))
        return ops.concatenate([ops.zeros_like(scores), scores], axis=-1)

    def compute_output_spec(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> keras.KerasTensor:
        return keras.KerasTensor((*token_ids.shape, len(CLASSES)), dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder, "objective": self.objective}

    @classmethod
    def from_config(cls, config: dict) -> "Discriminator":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


def names_of(encoder: keras.Model) -> tuple[str, str, str, str] | None:
    """Return `OF_ELECTRA` or `OF_DEBERTA`; None: no other family learns to discriminate."""
    if isinstance(encoder, Deberta):
        return OF_DEBERTA
    origin = getattr(encoder, "origin", None) or {}
    is_electra = isinstance(encoder, PostNormEncoder) and origin.get("model_type") == "electra"
    return OF_ELECTRA if is_electra else None


def check_discriminator(encoder: keras.Model, settings: Any) -> None:
    """Refuse an encoder of another family.

    Raises:
        InputError: it is neither an ELECTRA nor a DeBERTa.
    """
    if names_of(encoder) is None:
        raise InputError(
            f'objective = "replaced" goes on from an ELECTRA or a DeBERTa-v3, and '
            f'{settings.encoder} is neither: name one of these, or set objective = "masked".'
        )


def load_discriminator(model: Discriminator, name: str, folder: Path) -> None:
    """Give the head the weights of its checkpoint.

    Args:
        model: whose encoder has its weights already.
        name: of the encoder in the settings.
        folder: of the encoder.

    Raises:
        InputError: the folder has no such head, as the folder of a generator has none.
    """
    weights = read_weights(folder) if has_weights(folder) else Weights(folder, {})
    found: Any = names_of(model.encoder)
    head = f"{found[1]}."
    if not any(tensor.startswith(head) for tensor in weights.tensors):
        raise InputError(
            f"{name} has no discriminator ({head}*), so nothing goes on to tell replaced tokens: "
            'name the folder of a discriminator, or set objective = "masked".'
        )
    assign_head(model, weights)
    weights.tensors = {n: value for n, value in weights.tensors.items() if n.startswith(head)}
    weights.finish()


def assign_head(model: Discriminator, weights: Weights) -> None:
    """Assign the weights of the head, or collect them for an export."""
    found: Any = names_of(model.encoder)
    _, head, last, _ = found
    parts = {"dense": model.head_dense, "LayerNorm": model.head_norm, last: model.head_score}
    for name, layer in parts.items():
        if layer is not None:
            assign_pair(weights, layer, f"{head}.{name}")


def describe(model: Discriminator, tokenizer: Tokenizer) -> tuple[dict, Tensors, tuple]:
    """Return config.json, the weights by name, and the tokenizer's files.

    Args:
        model: that was trained.
        tokenizer: of the encoder.
    """
    config, tensors = describe_encoder(model.encoder)
    found: Any = names_of(model.encoder)
    prefix, _, _, architecture = found
    head = Names()
    assign_head(model, head)
    config["architectures"] = [architecture]
    files = describe_tokenizer(tokenizer, model.encoder)
    return config, {f"{prefix}{n}": value for n, value in tensors.items()} | head.tensors, files


# --------------------------------------------------------------------- batches


def lay_out(
    padded: Any, hidden: np.ndarray, settings: Any, special: Any, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return the inputs of the model for some texts, with replaced tokens.

    Args:
        padded: token ids and padding mask `[texts, length]`.
        hidden: the tokens to replace, bool `[texts, length]`.
        settings: `encoders.generator`, which replaces tokens; empty: they become other tokens of
            the same texts, which is a draw by their frequency.
        special: tokens that are not text.
        random: draws the tokens.
    """
    original, mask = padded.token_ids, padded.padding_mask
    if settings.encoders.generator:
        from extras.encoders import generator

        tokens = generator.draw_tokens(padded, hidden, settings, special, random)
    else:
        texts = original[(mask > 0) & ~special.is_special[original]]
        tokens = random.choice(texts if len(texts) else special.ordinary, original.shape)
    token_ids = np.where(hidden, tokens, original).astype(np.int32)
    # A token that was drawn again is an original one.
    labels = np.where(mask > 0, token_ids != original, NO_TOKEN)
    return {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": mask,
        "masked_positions": np.broadcast_to(
            np.arange(original.shape[1], dtype=np.int32), original.shape
        ),
        "masked_labels": labels.astype(np.int32),
    }


def in_words(
    row: dict[str, np.ndarray], best: np.ndarray, tokenizer: Tokenizer, join_pieces: Callable
) -> dict:
    """Return a text, and what was said of its replaced tokens and of those taken for such.

    Args:
        row: of one text, from `lay_out`.
        best: the classes of each token, the likeliest first `[length, 2]`.
        tokenizer: of the text.
        join_pieces: from tokens to a text and the span of each.
    """
    size = int(row["padding_mask"].sum())
    labels, tokens = row["masked_labels"][:size], row["token_ids"][:size].tolist()
    text, spans = join_pieces([tokenizer.id_to_token(token) or "" for token in tokens])
    return {
        "text": text,
        "hidden": [
            {
                "span": spans[place],
                "predicted": [CLASSES[number] for number in best[place].tolist()],
                "label": CLASSES[labels[place]],
            }
            for place in np.flatnonzero((labels == 1) | (best[:size, 0] == 1))
        ],
    }
