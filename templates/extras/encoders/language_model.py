"""Masked words for every family: an encoder under the head of its checkpoint, and both exported.

All heads are Dense, activation and normalization; then the token embedding and a bias score the
vocabulary. The template pretraining uses this module; its own model is for BERT.
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf
from keras import ops
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import read_json
from core.fast.transformer import LayerNormalization
from extras.encoders import discriminator
from extras.encoders.fields import ACTIVATIONS, GELU, TANH_GELU
from extras.encoders.google import find_config
from extras.encoders.loading import has_weights, read_weights
from extras.encoders.modernbert import ModernBert, ScaleNormalization
from extras.encoders.naming import Names, Tensors, describe_encoder, describe_tokenizer
from extras.encoders.postnorm import PostNormEncoder, activation_function, initializer
from extras.encoders.weights import Weights


class HeadNames(NamedTuple):
    """The names of a head in a file; `activation` is set if it is not that of the layers."""

    dense: str
    norm: str
    bias: str
    activation: str = ""


OF_BERT = HeadNames(
    *(f"cls.predictions.{part}" for part in ("transform.dense", "transform.LayerNorm", "bias"))
)
OF_ROBERTA = HeadNames("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "gelu")
OF_DISTILBERT = HeadNames("vocab_transform", "vocab_layer_norm", "vocab_projector.bias")
OF_ELECTRA = HeadNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head.bias",
    "gelu",
)
OF_ALBERT = HeadNames(*(f"predictions.{part}" for part in ("dense", "LayerNorm", "bias")))
OF_DEBERTA = HeadNames(
    *(f"lm_predictions.lm_head.{part}" for part in ("dense", "LayerNorm", "bias"))
)
OF_MODERNBERT = HeadNames("head.dense", "head.norm", "decoder.bias")
HEADS = (
    *(OF_BERT, OF_ROBERTA, OF_DISTILBERT, OF_ELECTRA),
    *(OF_ALBERT, OF_DEBERTA, OF_MODERNBERT),
)
# model_type of an export -> names of its head, prefix of its encoder, class of transformers.
EXPORTS = {
    "bert": (OF_BERT, "bert.", "BertForMaskedLM"),
    "ernie": (OF_BERT, "ernie.", "ErnieForMaskedLM"),
    "roberta": (OF_ROBERTA, "roberta.", "RobertaForMaskedLM"),
    "xlm-roberta": (OF_ROBERTA, "roberta.", "XLMRobertaForMaskedLM"),
    "camembert": (OF_ROBERTA, "roberta.", "CamembertForMaskedLM"),
    "distilbert": (OF_DISTILBERT, "distilbert.", "DistilBertForMaskedLM"),
    "electra": (OF_ELECTRA, "electra.", "ElectraForMaskedLM"),
    "albert": (OF_ALBERT, "albert.", "AlbertForMaskedLM"),
    "nezha": (OF_BERT, "nezha.", "NezhaForMaskedLM"),
    "roformer": (OF_BERT, "roformer.", "RoFormerForMaskedLM"),
    "deberta-v2": (OF_BERT, "deberta.", "DebertaV2ForMaskedLM"),
    "mpnet": (OF_ROBERTA, "mpnet.", "MPNetForMaskedLM"),
    "modernbert": (OF_MODERNBERT, "model.", "ModernBertForMaskedLM"),
}


class LanguageModel(Protocol):
    """An encoder with its head: one of this module, or the BERT of the template pretraining."""

    encoder: Any
    head_dense: keras.layers.Dense
    head_norm: keras.layers.Layer
    bias: keras.Variable


@keras.saving.register_keras_serializable("encoders")
class MaskedLanguageModel(keras.layers.Layer):
    """An encoder of any family, which predicts hidden tokens.

    Args:
        encoder: whose token embedding scores the vocabulary, too.
        objective: `masked`, the only one for these families.
    """

    def __init__(self, encoder: Any, objective: str = "masked", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder, self.objective = encoder, objective
        modern = isinstance(encoder, ModernBert)
        width = encoder.token_embedding.output_dim
        self.head_dense = keras.layers.Dense(
            width,
            activation=activation_function(encoder.activation),
            use_bias=not modern,
            kernel_initializer=initializer(),
            dtype=self.dtype_policy,
            name="head_dense",
        )
        norm = ScaleNormalization if modern else LayerNormalization
        self.head_norm = norm(
            epsilon=encoder.layer_norm_epsilon, dtype=self.dtype_policy, name="head_norm"
        )
        self.head_dense.build((None, None, encoder.hidden_dim))
        self.head_norm.build((None, None, width))
        self.bias = self.add_weight(
            (encoder.vocabulary_size,), initializer="zeros", name="vocabulary_bias"
        )
        self.built = True

    def call(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> tf.Tensor:
        """Return the logits `[batch, slots, vocabulary]` of the hidden tokens.

        Args:
            token_ids: the input `[batch, length]`, as are `segment_ids` and `padding_mask`.
            segment_ids: 0, if the encoder has segments.
            padding_mask: 0 behind the end of the text.
            masked_positions: positions of hidden tokens `[batch, slots]`.
            training: whether dropout is on.
        """
        given = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
        inputs = {tensor.name: given[tensor.name] for tensor in self.encoder.inputs}
        hidden = self.encoder(inputs, training=training)
        # A matmul instead of a gather: its gradient is a matmul too, not a scattered sum.
        places = ops.one_hot(masked_positions, ops.shape(token_ids)[1], dtype=hidden.dtype)
        hidden = self.head_norm(self.head_dense(ops.matmul(places, hidden)))
        logits = self.encoder.token_embedding(hidden, reverse=True)
        return logits + ops.cast(self.bias, logits.dtype)

    def compute_output_spec(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> keras.KerasTensor:
        shape = (*masked_positions.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder, "objective": self.objective}

    @classmethod
    def from_config(cls, config: dict) -> "MaskedLanguageModel":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


def layer_of(objective: str) -> type[keras.layers.Layer]:
    """Return the class of the layer that learns an objective."""
    return discriminator.Discriminator if objective == "replaced" else MaskedLanguageModel


def check_encoder(encoder: keras.Model, settings: Any) -> None:
    """Refuse an encoder that can't be trained further.

    Raises:
        InputError: a preset of another family than BERT, or another objective than `masked`; or
            `replaced` for another family than ELECTRA and DeBERTa.
    """
    if settings.objective == "replaced":
        discriminator.check_discriminator(encoder, settings)
        return
    if not isinstance(encoder, PostNormEncoder | ModernBert):
        raise InputError(
            f"{settings.encoder} is a {type(encoder).__name__} of KerasHub, which only a BERT may "
            "be here: name the same model as hf://owner/model, or a folder in that format."
        )
    if settings.objective != "masked":
        raise InputError(
            f"objective = {settings.objective!r} goes on only from a BERT, and {settings.encoder} "
            f'is a {type(encoder).__name__}: set objective = "masked".'
        )


def load_head(model: Any, name: str, folder: Path) -> None:
    """Give a head the weights of its checkpoint; print why, if it starts anew.

    Args:
        model: whose encoder has its weights already.
        name: of the encoder in the settings.
        folder: of the encoder.

    Raises:
        InputError: it is a discriminator, and the folder has none.
    """
    if isinstance(model, discriminator.Discriminator):
        discriminator.load_discriminator(model, name, folder)
    elif reason := find_head(model, folder):
        print(f"{name} {reason}: it starts anew.")


def find_head(model: LanguageModel, folder: Path) -> str:
    """Give a head the weights of its folder; return why that can't be done, or nothing."""
    weights = read_weights(folder) if has_weights(folder) else Weights(folder, {})
    names = next((head for head in HEADS if f"{head.dense}.weight" in weights.tensors), None)
    fields = read_json(path) if (path := find_config(folder)) else {}
    if names is None:
        return "has no head of a language model"
    if reason := find_difference(model, names, fields, weights):
        return reason
    assign_head(model, names, weights)
    weights.tensors = {n: value for n, value in weights.tensors.items() if n in weights.used}
    weights.finish()
    return ""


def find_difference(model: LanguageModel, names: HeadNames, fields: dict, weights: Weights) -> str:
    """Return why a head can't be used; empty: it can."""
    if fields.get("tie_word_embeddings") is False:
        return "scores tokens by other embeddings than it reads"
    own = model.encoder.get_config()
    used = own.get("activation", GELU if own.get("exact_gelu") else TANH_GELU)
    activation = fields.get("classifier_activation") or names.activation
    if activation and ACTIVATIONS.get(activation) != used:
        return "has a head with another activation than its layers have"
    vocabulary = weights.tensors.get(names.bias)
    if vocabulary is None or vocabulary.shape != tuple(model.bias.shape):
        return "has a head for another vocabulary"
    return ""


def assign_head(model: LanguageModel, names: HeadNames, weights: Weights) -> None:
    """Assign the weights of a head, or collect them for an export."""
    for layer, name in ((model.head_dense, names.dense), (model.head_norm, names.norm)):
        for variable in layer.weights:
            kind = "bias" if variable.name in ("bias", "beta") else "weight"
            weights.assign(variable, f"{name}.{kind}")
    weights.assign(model.bias, names.bias)


def describe(model: Any, tokenizer: Tokenizer) -> tuple[dict, Tensors, tuple]:
    """Return config.json, the weights by name, and the tokenizer's files as `describe_tokenizer`.

    Args:
        model: that was trained: a `LanguageModel` or a `Discriminator`.
        tokenizer: of the encoder.
    """
    if isinstance(model, discriminator.Discriminator):
        return discriminator.describe(model, tokenizer)
    config, tensors = describe_encoder(model.encoder)
    names, prefix, architecture = EXPORTS[config["model_type"]]
    if names.activation and config["hidden_act"] != names.activation:
        # These heads have always this activation; that of BERT has the one of the layers.
        config, tensors = describe_encoder(model.encoder, as_bert=True)
        names, prefix, architecture = EXPORTS[config["model_type"]]
    head = Names()
    assign_head(model, names, head)
    files = describe_tokenizer(tokenizer, model.encoder)
    for kind in ("pad", "cls", "sep", "mask"):
        if (token := files[1].get(f"{kind}_token")) is not None:
            config.setdefault(f"{kind}_token_id", tokenizer.token_to_id(token))
    config |= {"architectures": [architecture], "tie_word_embeddings": True}
    if "hidden_activation" in config:
        config["classifier_activation"] = config["hidden_activation"]
    return config, {f"{prefix}{n}": value for n, value in tensors.items()} | head.tensors, files
