"""BERT, and the families whose weights make a BERT: RoBERTa, XLM-R, DistilBERT, ERNIE.

MacBERT, RoBERTa-wwm-ext and similar models call themselves BERT too.
Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805.
"""

from typing import Any

import keras
import numpy as np

from core.base.settings import CoreSettings
from core.encoders.encoder import BertEncoder
from extras.encoders.fields import GELU, TANH_GELU, Fields
from extras.encoders.postnorm import SEGMENTS, PostNormEncoder, assign_all, assign_pair
from extras.encoders.weights import Weights

TASKS = "embeddings.task_type_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
OF_DISTILBERT = (
    (r"^transformer\.layer\.", "encoder.layer."),
    (r"\.attention\.([qkv])_lin\.", r".attention.self.\1."),
    (r"\.self\.q\.", ".self.query."),
    (r"\.self\.k\.", ".self.key."),
    (r"\.self\.v\.", ".self.value."),
    (r"\.attention\.out_lin\.", ".attention.output.dense."),
    (r"\.sa_layer_norm\.", ".attention.output.LayerNorm."),
    (r"\.ffn\.lin1\.", ".intermediate.dense."),
    (r"\.ffn\.lin2\.", ".output.dense."),
    (r"\.output_layer_norm\.", ".output.LayerNorm."),
)


@keras.saving.register_keras_serializable("encoders")
class Bert(BertEncoder):
    """Core's BERT with a configurable epsilon.

    Args:
        layer_norm_epsilon: of all normalizations.
        origin: the family of the files if it is not BERT: its `model_type`, and the
            `first_position` in its table; an export has them again.
        **kwargs: as in `BertEncoder`.
    """

    def __init__(
        self,
        *,
        layer_norm_epsilon: float = 1e-12,
        origin: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.layer_norm_epsilon, self.origin = layer_norm_epsilon, origin
        self.embeddings_layer_norm.epsilon = layer_norm_epsilon
        for layer in self.transformer_layers:
            layer.layer_norm_epsilon = layer_norm_epsilon  # used by clones
            layer._self_attention_layer_norm.epsilon = layer_norm_epsilon
            layer._feedforward_layer_norm.epsilon = layer_norm_epsilon

    def get_config(self) -> dict:
        own = {"layer_norm_epsilon": self.layer_norm_epsilon, "origin": self.origin}
        return {**super().get_config(), **own}


def make_bert(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return BERT, and ERNIE, with its weights."""
    segments = fields.number("type_vocab_size", 2)
    fields.asked.add("task_type_vocab_size")  # `take` finds the rows
    if fields.get("use_task_id", False):
        # All tokens have task 0, so its row is added to the rows of the segments.
        row = weights.take(TASKS)[:1]
        weights.change(SEGMENTS, lambda table: table + row)
    return bert_like(fields, weights, settings, segments, 0)


def make_roberta(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return RoBERTa, XLM-R and CamemBERT, with weights.

    The first rows of their position tables are for padding. Source: Liu et al. 2019,
    https://arxiv.org/abs/1907.11692.
    """
    segments = fields.number("type_vocab_size", 2)
    return bert_like(fields, weights, settings, segments, fields.number("pad_token_id", 1) + 1)


def make_distilbert(fields: Fields, weights: Weights, settings: CoreSettings) -> keras.Model:
    """Return DistilBERT with its weights.

    Source: Sanh et al. 2019, https://arxiv.org/abs/1910.01108.
    """
    names = {
        "dim": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
    }
    fields.values = {names.get(name, name): value for name, value in fields.values.items()}
    weights.rename(*OF_DISTILBERT)
    weights.tensors[SEGMENTS] = np.zeros_like(weights.tensors.get(POSITIONS, np.zeros((1, 1)))[:1])
    return bert_like(fields, weights, settings, 1, 0)


def bert_like(
    fields: Fields,
    weights: Weights,
    settings: CoreSettings,
    segments: int,
    first_position: int,
) -> keras.Model:
    """Return an encoder with BERT's layers and names.

    Args:
        fields: of config.json.
        weights: named as BERT's.
        settings: `dropout` and `attention_dropout`.
        segments: rows of the segment embedding.
        first_position: the row of the first token's position.
    """
    fields.require("position_embedding_type", "absolute")
    activation = fields.activation()
    sizes = {
        **fields.sizes(settings),
        "max_sequence_length": fields.number("max_position_embeddings", 512) - first_position,
        "layer_norm_epsilon": fields.real("layer_norm_eps", 1e-12),
    }
    if fields.kind != "bert":
        sizes["origin"] = {"model_type": fields.kind, "first_position": first_position}
    weights.change(POSITIONS, lambda table: table[first_position:])
    if segments >= 2 and activation in (GELU, TANH_GELU):
        encoder = Bert(**sizes, num_segments=segments, exact_gelu=activation == GELU)
        if "pooler.dense.weight" in weights.tensors:
            assign_pair(weights, encoder.pooled_dense, "pooler.dense")
    else:
        if segments == 1:
            # All tokens have one segment, so its row is added to the rows of the positions.
            row = weights.take(SEGMENTS)
            weights.change(POSITIONS, lambda table: table + row)
            segments = 0
        encoder = PostNormEncoder(**sizes, num_segments=segments, activation=activation)
    assign_all(encoder, weights)
    return encoder
