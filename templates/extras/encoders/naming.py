"""An encoder in Hugging Face format: config.json, weights by name, tokenizer files.

The functions that load a family contain the names; here they only collect the names.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.encoders.encoder import BertEncoder
from extras.encoders.bert import POSITIONS as BERT_POSITIONS
from extras.encoders.deberta import Deberta, assign_deberta
from extras.encoders.families import (
    POSITIONS,
    Albert,
    Nezha,
    RoFormer,
    assign_albert,
)
from extras.encoders.fields import GELU, TANH_GELU
from extras.encoders.modernbert import GLOBAL, LOCAL, ModernBert, assign_modernbert
from extras.encoders.mpnet import BUCKETS, MPNet, assign_mpnet
from extras.encoders.postnorm import SEGMENTS, PostNormEncoder, assign_all, assign_pair, rotation
from extras.encoders.roformer_v2 import RoFormerV2, assign_roformer_v2
from extras.encoders.weights import Weights
from extras.encoders.words import WordTokenizer

Tensors = dict[str, np.ndarray]
ACTIVATIONS = {GELU: "gelu", TANH_GELU: "gelu_new"}
TO_ALBERT = (
    (r"^embeddings_project\.", "encoder.embedding_hidden_mapping_in."),
    (r"(albert_layers\.\d+\.)attention\.self\.", r"\1attention."),
    (r"(albert_layers\.\d+\.)attention\.output\.", r"\1attention."),
    (r"(albert_layers\.\d+\.)intermediate\.dense\.", r"\1ffn."),
    (r"(albert_layers\.\d+\.)output\.dense\.", r"\1ffn_output."),
    (r"(albert_layers\.\d+\.)output\.LayerNorm\.", r"\1full_layer_layer_norm."),
)
TO_DISTILBERT = (
    (r"^encoder\.layer\.", "transformer.layer."),
    (r"\.attention\.self\.(.)\w+\.", r".attention.\1_lin."),
    (r"\.attention\.output\.dense\.", ".attention.out_lin."),
    (r"\.attention\.output\.LayerNorm\.", ".sa_layer_norm."),
    (r"\.intermediate\.dense\.", ".ffn.lin1."),
    (r"\.output\.dense\.", ".ffn.lin2."),
    (r"\.output\.LayerNorm\.", ".output_layer_norm."),
)
# Field of BERT -> its name in DistilBERT.
DISTILBERT_FIELDS = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
TO_MPNET = (
    (r"\.attention\.self\.(.)\w+\.", r".attention.attn.\1."),
    (r"\.attention\.output\.dense\.", ".attention.attn.o."),
    (r"\.attention\.output\.LayerNorm\.", ".attention.LayerNorm."),
)
TO_DEBERTA = ((r"\.attention\.self\.(query|key|value)\.", r".attention.self.\1_proj."),)


class Names(Weights):
    """Replaces the weights of a file: collects the values of an encoder by name."""

    def __init__(self) -> None:
        super().__init__(Path(), {})

    def assign(self, variable: keras.Variable, name: str) -> None:
        """Keep the value of a variable; that of a Linear layer is transposed."""
        value = keras.ops.convert_to_numpy(variable.value)
        if "kernel" in variable.name:
            # Attention heads have their own axis, in front if they are outputs.
            ends = value.ndim == 3 and name.endswith("attention.output.dense.weight")
            inner = np.prod(value.shape[:-1]) if ends else value.shape[0]
            value = value.reshape(int(inner), -1).T
        elif name.endswith(".bias"):
            value = value.ravel()
        self.tensors[name] = np.ascontiguousarray(value, np.float32)

    def take(self, name: str) -> np.ndarray:
        """Return nothing: there is no file."""
        return np.zeros(0, np.float32)

    def put(self, variable: keras.Variable, value: np.ndarray, name: str) -> None:
        """Keep the value of a convolution with reversed axes."""
        value = keras.ops.convert_to_numpy(variable.value)
        self.tensors[name] = np.ascontiguousarray(value.T, np.float32)


def describe_encoder(encoder: keras.Model, as_bert: bool = False) -> tuple[dict, Tensors]:
    """Return config.json and the weights by name.

    Args:
        encoder: of any family.
        as_bert: write RoBERTa, XLM-R, CamemBERT, DistilBERT and ERNIE as the BERT that computes the
            same, as a run does that does not know where its encoder came from.

    Raises:
        InputError: an unknown family.
    """
    describe: dict[type, Callable[[Any, Names], dict]] = {
        Albert: describe_albert,
        Nezha: describe_nezha,
        RoFormer: describe_roformer,
        RoFormerV2: describe_roformer_v2,
        Deberta: describe_deberta,
        ModernBert: describe_modernbert,
        MPNet: describe_mpnet,
        PostNormEncoder: describe_post_norm,
        BertEncoder: describe_bert,
    }
    for kind, function in describe.items():
        if isinstance(encoder, kind):
            names = Names()
            config = {**sizes(encoder), **function(encoder, names)}
            if (origin := getattr(encoder, "origin", None)) and not as_bert:
                config = return_to(origin, config, names)
            return config, names.tensors
    raise InputError(
        f"{type(encoder).__name__} is not known in Hugging Face's format here: "
        "leave it out with --no-encoder."
    )


def sizes(encoder: Any) -> dict[str, Any]:
    """Return the fields of all families."""
    found = {
        "vocab_size": encoder.vocabulary_size,
        "hidden_size": encoder.hidden_dim,
        "num_hidden_layers": encoder.num_layers,
        "num_attention_heads": encoder.num_heads,
        "intermediate_size": encoder.intermediate_dim,
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.attention_dropout or 0.0,
        "layer_norm_eps": encoder.embeddings_layer_norm.epsilon,
        "max_position_embeddings": encoder.max_sequence_length or 512,
        "type_vocab_size": getattr(encoder, "num_segments", 0),
    }
    if hasattr(encoder, "activation"):
        found["hidden_act"] = ACTIVATIONS.get(encoder.activation, encoder.activation)
    return found


def describe_bert(encoder: BertEncoder, names: Names) -> dict[str, Any]:
    """Collect the weights of core's BERT; return its own fields."""
    assign_all(encoder, names)
    assign_pair(names, encoder.pooled_dense, "pooler.dense")
    return {"model_type": "bert", "hidden_act": "gelu" if encoder.exact_gelu else "gelu_new"}


def describe_post_norm(encoder: PostNormEncoder, names: Names) -> dict[str, Any]:
    """Collect the weights of a BERT without pooler, or of an ELECTRA; return its own fields."""
    assign_all(encoder, names)
    width = encoder.embedding_dim or encoder.hidden_dim
    names.tensors.setdefault(SEGMENTS, np.zeros((1, width), np.float32))
    own = {"type_vocab_size": len(names.tensors[SEGMENTS])}
    narrow = {"model_type": "electra", "embedding_size": width}
    return {**own, **(narrow if encoder.embedding_dim else {"model_type": "bert"})}


def return_to(origin: dict[str, Any], config: dict[str, Any], names: Names) -> dict[str, Any]:
    """Return the fields of the family that a BERT was read from, and rename its weights.

    Args:
        origin: of the encoder.
        config: the fields of BERT.
        names: the weights of BERT.
    """
    family, first = origin["model_type"], origin["first_position"]
    config = {**config, "model_type": family}
    if first:  # the rows before the first position belong to padding, which nothing reads
        table = names.tensors[BERT_POSITIONS]
        names.tensors[BERT_POSITIONS] = np.pad(table, ((first, 0), (0, 0)))
        config["max_position_embeddings"] += first
        config["pad_token_id"] = first - 1
    if family == "electra":
        config.setdefault("embedding_size", config["hidden_size"])
    if family == "distilbert":
        names.rename(*TO_DISTILBERT)
        del names.tensors[SEGMENTS], config["type_vocab_size"], config["layer_norm_eps"]
        config = {DISTILBERT_FIELDS.get(name, name): value for name, value in config.items()}
    return config


def describe_albert(encoder: Albert, names: Names) -> dict[str, Any]:
    """Collect the weights of ALBERT; return its own fields."""
    assign_albert(encoder, names)
    width = encoder.embedding_dim or encoder.hidden_dim
    if not encoder.embedding_dim:  # the file always has a projection
        names.tensors["embeddings_project.weight"] = np.eye(width, dtype=np.float32)
        names.tensors["embeddings_project.bias"] = np.zeros(width, np.float32)
    names.rename(*TO_ALBERT)
    groups = {"num_hidden_groups": encoder.groups, "inner_group_num": encoder.group_size}
    return {"model_type": "albert", "embedding_size": width, **groups}


def describe_nezha(encoder: Nezha, names: Names) -> dict[str, Any]:
    """Collect the weights of NEZHA; return its own fields."""
    assign_all(encoder, names)
    return {"model_type": "nezha", "max_relative_position": encoder.layer_options["reach"]}


def describe_roformer(encoder: RoFormer, names: Names) -> dict[str, Any]:
    """Collect the weights of RoFormer and its position table; return its own fields."""
    assign_all(encoder, names)
    size = encoder.hidden_dim // encoder.num_heads
    cosine, sine = rotation(encoder.max_sequence_length or 512, size, 10000.0)
    names.tensors[POSITIONS] = np.concatenate([sine, cosine], axis=1).astype(np.float32)
    width = encoder.embedding_dim or encoder.hidden_dim
    return {"model_type": "roformer", "embedding_size": width, **encoder.layer_options}


def describe_roformer_v2(encoder: RoFormerV2, names: Names) -> dict[str, Any]:
    """Collect the weights of RoFormerV2; return its own fields, for bert4keras3 and others."""
    assign_roformer_v2(encoder, names)
    width = encoder.embedding_dim or encoder.hidden_dim
    own = {"norm_type": "rms_norm", "use_bias": False, "embedding_size": width}
    return {"model_type": "roformer", **own, **encoder.layer_options}


def describe_deberta(encoder: Deberta, names: Names) -> dict[str, Any]:
    """Collect the weights of DeBERTa; return its own fields."""
    assign_deberta(encoder, names)
    names.rename(*TO_DEBERTA)
    options, convolution = encoder.layer_options, encoder.convolution
    config = {
        "model_type": "deberta-v2",
        "relative_attention": True,
        "position_biased_input": encoder.has_positions,
        "max_position_embeddings": encoder.max_sequence_length or options["reach"],
        "max_relative_positions": options["reach"],
        "position_buckets": options["buckets"] or -1,
        "pos_att_type": options["kinds"],
        "share_att_key": options["shared"],
        "norm_rel_ebd": "layer_norm" if encoder.normalized else "none",
    }
    if convolution:
        activation = ACTIVATIONS.get(convolution["activation"], convolution["activation"])
        config |= {"conv_kernel_size": convolution["size"], "conv_act": activation}
        config["conv_groups"] = convolution["groups"]
    return config


def describe_modernbert(encoder: ModernBert, names: Names) -> dict[str, Any]:
    """Collect the weights of ModernBERT; return its own fields."""
    assign_modernbert(encoder, names)
    options = encoder.layer_options
    kinds = [LOCAL if layer["reach"] else GLOBAL for layer in options]
    angles = dict(zip(kinds, (layer["theta"] for layer in options), strict=True))
    wide = [number for number, kind in enumerate(kinds) if kind == GLOBAL]
    return {
        "model_type": "modernbert",
        "hidden_activation": ACTIVATIONS.get(encoder.activation, encoder.activation),
        "norm_eps": encoder.layer_norm_epsilon,
        "layer_types": kinds,
        "global_attn_every_n_layers": wide[1] if len(wide) > 1 else len(kinds),
        "local_attention": 2 * max(layer["reach"] for layer in options),
        "global_rope_theta": angles.get(GLOBAL, 160000.0),
        "local_rope_theta": angles.get(LOCAL, 10000.0),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in angles.items()
        },
    }


def describe_mpnet(encoder: MPNet, names: Names) -> dict[str, Any]:
    """Collect the weights of MPNet; return its own fields."""
    assign_mpnet(encoder, names)
    names.rename(*TO_MPNET)
    return {"model_type": "mpnet", "relative_attention_num_buckets": BUCKETS}


def describe_tokenizer(tokenizer: Tokenizer, encoder: Any) -> tuple[dict, dict, str | None]:
    """Return tokenizer.json, tokenizer_config.json, and vocab.txt (None: no such file).

    Args:
        tokenizer: of the encoder.
        encoder: has the maximum number of tokens, if it has one.
    """
    length = getattr(encoder, "max_sequence_length", None)
    whole = json.loads(tokenizer.to_str())
    empty = tokenizer.encode("")  # padded by files of sentence-transformers
    around = [empty.tokens[place] for place in np.flatnonzero(empty.attention_mask)]
    names = {"cls_token": around[0], "sep_token": around[-1]} if around else {}
    for name in ("pad", "unk", "mask"):
        forms = (f"[{name.upper()}]", f"<{name}>")
        found = [form for form in forms if tokenizer.token_to_id(form) is not None]
        names |= {f"{name}_token": form for form in found[:1]}
    vocabulary = None
    if whole["model"]["type"] == "WordPiece":
        numbers = tokenizer.get_vocab()
        vocabulary = "".join(f"{token}\n" for token in sorted(numbers, key=numbers.__getitem__))
    kind = "RoFormerTokenizer" if isinstance(tokenizer, WordTokenizer) else ""
    config: dict[str, Any] = {"tokenizer_class": kind or "PreTrainedTokenizerFast", **names}
    if not getattr(encoder, "num_segments", 0):  # several classes refuse segments
        config["model_input_names"] = ["input_ids", "attention_mask"]
    lowercase = (whole["normalizer"] or {}).get("lowercase")
    config |= {} if lowercase is None else {"do_lower_case": lowercase}
    return whole, config | ({"model_max_length": length} if length else {}), vocabulary
