"""Families with one difference from BERT: ELECTRA, ALBERT, NEZHA, RoFormer."""

from typing import Any

import keras
import numpy as np

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.fast.transformer import TransformerLayer
from extras.encoders.fields import Fields
from extras.encoders.postnorm import (
    SEGMENTS,
    PostNormEncoder,
    PostNormLayer,
    RelativeAttention,
    RotaryAttention,
    assign_all,
    assign_embeddings,
    assign_layer,
    rotation,
)
from extras.encoders.roformer_v2 import make_roformer_v2
from extras.encoders.weights import Weights

POSITIONS = "encoder.embed_positions.weight"
OF_ALBERT = (
    (r"^encoder\.embedding_hidden_mapping_in\.", "embeddings_project."),
    (r"\.attention\.(query|key|value)\.", r".attention.self.\1."),
    (r"\.attention\.dense\.", ".attention.output.dense."),
    (r"\.attention\.LayerNorm\.", ".attention.output.LayerNorm."),
    (r"\.ffn\.", ".intermediate.dense."),
    (r"\.ffn_output\.", ".output.dense."),
    (r"\.full_layer_layer_norm\.", ".output.LayerNorm."),
)


def post_norm_options(fields: Fields, weights: Weights, settings: CoreSettings) -> dict[str, Any]:
    """Return the arguments of a `PostNormEncoder` that these families share."""
    segments = fields.number("type_vocab_size", 2)
    if segments == 1:
        # A second text has the same segment as the first.
        weights.change(SEGMENTS, lambda table: np.repeat(table, 2, axis=0))
        segments = 2
    return {
        **fields.sizes(settings),
        "max_sequence_length": fields.number("max_position_embeddings", 512),
        "num_segments": segments,
        "activation": fields.activation(),
        "layer_norm_epsilon": fields.real("layer_norm_eps", 1e-12),
    }


def narrow_embedding(fields: Fields, default: int) -> dict[str, int]:
    """Return `embedding_dim` if embeddings and hidden states differ in width."""
    width = fields.number("embedding_size", default)
    return {"embedding_dim": 0 if width == fields.number("hidden_size") else width}


def make_electra(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return ELECTRA, whose embeddings may be narrower than its layers.

    Source: Clark et al. 2020, https://arxiv.org/abs/2003.10555.
    """
    fields.require("position_embedding_type", "absolute")
    options = {**post_norm_options(fields, weights, settings), **narrow_embedding(fields, 128)}
    origin = {"model_type": "electra", "first_position": 0}
    encoder = PostNormEncoder(**options, origin=origin)
    assign_all(encoder, weights)
    return encoder


@keras.saving.register_keras_serializable("encoders")
class Albert(PostNormEncoder):
    """ALBERT with shared layers: `transformer_layers` has each once.

    Source: Lan et al. 2019, https://arxiv.org/abs/1909.11942.

    Args:
        groups: of layers; each group is applied several times in a row.
        group_size: layers in a group.
        **kwargs: as in `PostNormEncoder`.
    """

    def __init__(self, *, groups: int = 1, group_size: int = 1, **kwargs: Any) -> None:
        self.groups, self.group_size = groups, group_size
        super().__init__(**kwargs)

    def make_layers(self, dtype: Any) -> list[TransformerLayer]:
        passes, self.num_layers = self.num_layers, self.groups * self.group_size
        layers = super().make_layers(dtype)
        self.num_layers = passes
        return layers

    def transform(self, hidden: keras.KerasTensor, mask: keras.KerasTensor) -> keras.KerasTensor:
        for number in range(self.num_layers):
            first = int(number / (self.num_layers / self.groups)) * self.group_size
            for layer in self.transformer_layers[first : first + self.group_size]:
                hidden = layer(hidden, padding_mask=mask)
        return hidden

    def get_config(self) -> dict:
        return {**super().get_config(), "groups": self.groups, "group_size": self.group_size}


def make_albert(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return ALBERT with its weights."""
    fields.require("position_embedding_type", "absolute")
    options = post_norm_options(fields, weights, settings)
    groups, size = fields.number("num_hidden_groups", 1), fields.number("inner_group_num", 1)
    options |= {"embedding_dim": fields.number("embedding_size", 128)}
    encoder = Albert(**options, groups=groups, group_size=size)
    weights.rename(*OF_ALBERT)
    assign_albert(encoder, weights)
    return encoder


def assign_albert(encoder: Albert, weights: Weights) -> None:
    """Assign the weights of ALBERT, with BERT's names of the parts of a layer."""
    assign_embeddings(encoder, weights)
    for number, layer in enumerate(encoder.transformer_layers):
        group, place = divmod(number, encoder.group_size)
        assign_layer(layer, weights, f"encoder.albert_layer_groups.{group}.albert_layers.{place}")


@keras.saving.register_keras_serializable("encoders")
class NezhaLayer(PostNormLayer):
    """A layer with `RelativeAttention`.

    Args:
        reach: all larger distances are equal.
        **kwargs: as in `PostNormLayer`.
    """

    attention_class = RelativeAttention

    def __init__(self, *args: Any, reach: int = 64, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reach = reach

    def build(self, inputs_shape) -> None:
        super().build(inputs_shape)
        self._self_attention_layer.reach = self.reach

    def get_config(self) -> dict:
        return {**super().get_config(), "reach": self.reach}


@keras.saving.register_keras_serializable("encoders")
class Nezha(PostNormEncoder):
    """NEZHA: `layer_options` has `reach`."""

    layer_class = NezhaLayer


def make_nezha(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return NEZHA with its weights; with distances it reads texts of any length."""
    options = post_norm_options(fields, weights, settings)
    fields.require("use_relative_position", True)
    options |= {"max_sequence_length": None, "has_positions": False}
    reach = fields.number("max_relative_position", 64)
    encoder = Nezha(**options, layer_options={"reach": reach})
    assign_all(encoder, weights)
    return encoder


@keras.saving.register_keras_serializable("encoders")
class RoFormerLayer(PostNormLayer):
    """A layer with `RotaryAttention`.

    Args:
        rotary_value: whether values are rotated too.
        **kwargs: as in `PostNormLayer`.
    """

    attention_class = RotaryAttention

    def __init__(self, *args: Any, rotary_value: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rotary_value = rotary_value

    def build(self, inputs_shape) -> None:
        super().build(inputs_shape)
        self._self_attention_layer.rotary_value = self.rotary_value

    def get_config(self) -> dict:
        return {**super().get_config(), "rotary_value": self.rotary_value}


@keras.saving.register_keras_serializable("encoders")
class RoFormer(PostNormEncoder):
    """RoFormer: `layer_options` has `rotary_value`."""

    layer_class = RoFormerLayer


def check_positions(weights: Weights, size: int) -> None:
    """Refuse a position table that differs from `rotation`.

    Raises:
        InputError: the file has other positions.
    """
    table = weights.tensors.get(POSITIONS)
    if table is not None:
        cosine, sine = rotation(len(table), size, 10000.0)
        if not np.allclose(table, np.concatenate([sine, cosine], axis=1), atol=1e-2):
            raise InputError(
                f"{weights.path}: {POSITIONS} holds other positions than RoFormer's waves, which "
                "are computed here: choose an encoder that was trained with them."
            )


def is_second_roformer(fields: Fields, weights: Weights) -> bool:
    """Return whether a RoFormer is RoFormerV2, from config.json or its weights."""
    fields.asked.add("norm_type")
    named = "roformer_v2" in fields.kind or fields.values.get("norm_type") == "rms_norm"
    layers = [name for name in weights.tensors if name.startswith("encoder.layer.")]
    plain = not any("LayerNorm" in name or name.endswith("bias") for name in layers)
    return named or "norm_type" not in fields.values and bool(layers) and plain


def make_roformer(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return RoFormer, of either version, with its weights."""
    options = post_norm_options(fields, weights, settings) | narrow_embedding(
        fields, fields.number("hidden_size")
    )
    rotary_value = bool(fields.get("rotary_value", False))
    options |= {"has_positions": False, "layer_options": {"rotary_value": rotary_value}}
    check_positions(weights, options["hidden_dim"] // options["num_heads"])
    if is_second_roformer(fields, weights):
        return make_roformer_v2(fields, weights, options)
    fields.require("norm_type", "layer_norm")
    fields.require("use_bias", True)
    encoder = RoFormer(**options)
    assign_all(encoder, weights)
    return encoder
