"""The families of writers: from config.json to layer options, and weights by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.encoders.encoder import load_encoder
from extras.writers import chat, files, frames
from extras.writers.bert import BertDecoder
from extras.writers.decoder import Decoder
from extras.writers.encoder_decoder import EncoderDecoder
from extras.writers.files import Fields, Weights
from extras.writers.layers import INITIAL_DEVIATION, Block
from extras.writers.settings import classifies, learns_texts, packs, writes

TRAINED = "denoising"  # the `objective` of pre-training for this model
SLIDING = "sliding_attention"
GELUS = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh")
ACTIVATIONS = {name: "gelu_tanh" for name in GELUS} | {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Part of a `Block` -> its name in the files of a family.
LLAMA = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "attention_norm": "input_layernorm",
    "feedforward_norm": "post_attention_layernorm",
    "up": "mlp.up_proj",
    "gate": "mlp.gate_proj",
    "down": "mlp.down_proj",
}
GEMMA = LLAMA | {
    "attention_after": "post_attention_layernorm",
    "feedforward_norm": "pre_feedforward_layernorm",
    "feedforward_after": "post_feedforward_layernorm",
}
GPT2 = {
    "attention.query": "attn.query",
    "attention.key": "attn.key",
    "attention.value": "attn.value",
    "attention.output": "attn.c_proj",
    "attention_norm": "ln_1",
    "feedforward_norm": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
BERT = {
    **{f"attention.{part}": f"attention.self.{part}" for part in ("query", "key", "value")},
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward_norm": "output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
}
BART = {
    **{f"attention.{part}": f"self_attn.{part[0]}_proj" for part in ("query", "key", "value")},
    **{f"cross.{part}": f"encoder_attn.{part[0]}_proj" for part in ("query", "key", "value")},
    "attention.output": "self_attn.out_proj",
    "cross.output": "encoder_attn.out_proj",
    "attention_norm": "self_attn_layer_norm",
    "cross_norm": "encoder_attn_layer_norm",
    "feedforward_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}


def name_t5(feed: int, gated: bool) -> dict[str, str]:
    """Return the names of T5; the feed-forward part is the last part of a layer."""
    names = {"attention_norm": "layer.0.layer_norm", "cross_norm": "layer.1.layer_norm"}
    for part in ("query", "key", "value", "output"):
        names[f"attention.{part}"] = f"layer.0.SelfAttention.{part[0]}"
        names[f"cross.{part}"] = f"layer.1.EncDecAttention.{part[0]}"
    inner = f"layer.{feed}.DenseReluDense"
    return names | {
        "feedforward_norm": f"layer.{feed}.layer_norm",
        "up": f"{inner}.wi_1" if gated else f"{inner}.wi",
        "gate": f"{inner}.wi_0",
        "down": f"{inner}.wo",
    }


class Kind(NamedTuple):
    """The functions and names of a family.

    Attributes:
        make: makes the writer from config.json, weights, settings and end tokens.
        assign: assigns the writer's weights, or collects them for an export.
        architecture: the class of transformers; its names begin with `prefix` except the head's.
        is_decoder: whether source and target are one sequence.
    """

    make: Callable[[Fields, Weights, CoreSettings, list[int]], keras.Model]
    assign: Callable[[Weights, Any], None]
    architecture: str
    prefix: str
    is_decoder: bool


def activation(fields: Fields, name: str, default: str) -> str:
    """Return our name of an activation."""
    value = fields.get(name, default)
    if value not in ACTIVATIONS:
        raise InputError(
            f"{fields.path}: {name} = {value!r} is not an activation that is known here: choose a "
            f"writer with {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[value]


def assign_block(weights: Weights, block: Block, prefix: str, names: dict[str, str]) -> None:
    """Assign the weights of a layer.

    Args:
        weights: of the file.
        block: the layer.
        prefix: of the names of its weights.
        names: such as `LLAMA`.
    """
    parts: dict[str, Any] = {**block.norms, "up": block.up, "gate": block.gate, "down": block.down}
    for side, attention in (("attention", block.attention), ("cross", block.cross)):
        if attention is not None:
            parts |= {
                f"{side}.query": attention.query,
                f"{side}.key": attention.key,
                f"{side}.value": attention.value,
                f"{side}.output": attention.output_dense,
                f"{side}.query_norm": attention.query_norm,
                f"{side}.key_norm": attention.key_norm,
            }
    for part, layer in parts.items():
        if layer is not None:
            weights.assign(layer, f"{prefix}.{names[part]}")


def assign_embedding(weights: Weights, writer: Any, name: str) -> None:
    """Assign the token table, and the output table if it is another one."""
    table = writer.token_embedding
    weights.put(table.embeddings, name)
    if not writer.options["tied"]:
        weights.put(table.reverse_embeddings, files.HEAD, transposed=True)


# ------------------------------------------------------------------------- decoders


def make_gpt2(
    fields: Fields, weights: Weights, settings: CoreSettings, ends: list[int]
) -> keras.Model:
    """Return GPT-2.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
    """
    for name, value in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        fields.require(name, value)
    fields.require("add_cross_attention", False)
    fields.skip("reorder_and_upcast_attn", "n_ctx")
    width, heads = fields.number("n_embd", 768), fields.number("n_head", 12)
    norm = {"kind": "layer", "epsilon": fields.real("layer_norm_epsilon", 1e-5)}
    block = {
        "attention": {
            "heads": heads,
            "groups": heads,
            "head_size": width // heads,
            "bias": True,
            "output_bias": True,
            "dropout": settings.attention_dropout,
        },
        "inner": fields.get("n_inner", None) or 4 * width,
        "activation": activation(fields, "activation_function", "gelu_new"),
        "norm": norm,
        "bias": True,
        "dropout": settings.dropout,
    }
    return Decoder(
        vocabulary_size=fields.number("vocab_size"),
        hidden_dim=width,
        blocks=[block] * fields.number("n_layer", 12),
        norm=norm,
        max_sequence_length=fields.number("n_positions", 1024),
        has_positions=True,
        tied=bool(fields.get("tie_word_embeddings", True)),
        dropout=settings.dropout,
        ends=ends,
        name="encoder",
    )


def assign_gpt2(weights: Weights, decoder: Decoder) -> None:
    """Assign the weights of GPT-2."""
    weights.strip_prefix("wte.weight")
    weights.split_gpt2()
    assign_embedding(weights, decoder, "wte.weight")
    weights.put(decoder.position_embedding.embeddings, "wpe.weight")
    weights.assign(decoder.final_norm, "ln_f")
    for number, layer in enumerate(decoder.transformer_layers):
        assign_block(weights, layer, f"h.{number}", GPT2)


def read_rotation(fields: Fields, kind: str = "", theta: float = 10000.0) -> dict[str, Any]:
    """Return the options of `Attention` about rotation.

    Args:
        fields: of config.json.
        kind: of the layer, if kinds have their own rotations.
        theta: default if all fields are absent.

    Raises:
        InputError: an unsupported scaling of positions.
    """
    stored = fields.get("rope_parameters", None) or {}
    stored = stored.get(kind, stored)
    scaling = {**(fields.get("rope_scaling", None) or {}), **stored}
    theta = scaling.pop("rope_theta", None) or fields.get("rope_theta", theta)
    scaling["rope_type"] = scaling.get("rope_type", scaling.pop("type", "default"))
    partial = scaling.pop("partial_rotary_factor", None) or fields.get("partial_rotary_factor", 1.0)
    known = {
        "default": set(),
        "linear": {"factor"},
        "llama3": {
            *("factor", "low_freq_factor", "high_freq_factor"),
            "original_max_position_embeddings",
        },
    }
    needed = known.get(scaling["rope_type"])
    if needed is None or partial != 1.0 or not needed <= scaling.keys():
        raise InputError(
            f"{fields.path}: positions are turned by {scaling}, and only whole heads with the "
            f"rope_type {', '.join(known)} are computed here: choose another writer, or take the "
            "stretching out where texts are short."
        )
    kept = {name: scaling[name] for name in sorted(needed)}
    return {
        "theta": float(theta),
        "scaling": {**kept, "rope_type": scaling["rope_type"]} if needed else None,
    }


def read_reaches(fields: Fields, count: int) -> list[int]:
    """Return the attention reach of each layer (0: everything) from config.json.

    Raises:
        InputError: the numbers of kinds and layers differ.
    """
    family, default = fields.kind, 4096
    window = fields.values.get("sliding_window", None if family == "smollm3" else default)
    if family.startswith("gemma3"):  # null too: its local layers have their own rotation
        window = window or default
    used = bool(fields.values.get("use_sliding_window", False))
    first = fields.number("max_window_layers", 28)
    pattern = fields.values.get("sliding_window_pattern") or 6
    fields.skip("sliding_window", "use_sliding_window", "layer_types")
    fields.skip("sliding_window_pattern", "_sliding_window_pattern")
    if family == "llama" or not window or family in ("qwen2", "qwen3", "smollm3") and not used:
        return [0] * count
    kinds = fields.values.get("layer_types")
    if family == "mistral":
        return [window] * count
    if kinds is None and family.startswith("gemma3"):
        kinds = [SLIDING if (number + 1) % pattern else "" for number in range(count)]
    if kinds is None and family == "smollm3":
        kinds = ["" if turned else SLIDING for turned in read_turned(fields, count)]
    if kinds is None:
        kinds = [SLIDING if number >= first else "" for number in range(count)]
    if len(kinds) != count:
        raise InputError(
            f"{fields.path}: layer_types names {len(kinds)} of {count} layers: fetch the "
            "config.json of the model again."
        )
    return [window if kind == SLIDING else 0 for kind in kinds]


def read_turned(fields: Fields, count: int) -> list[bool]:
    """Return which layers use rotary positions; SmolLM3 leaves some out."""
    if fields.kind != "smollm3":
        return [True] * count
    every = fields.get("no_rope_layer_interval", 4)
    turned = fields.get("no_rope_layers", [(number + 1) % every for number in range(count)])
    return [bool(value) for value in turned]


def make_llama(
    fields: Fields, weights: Weights, settings: CoreSettings, ends: list[int]
) -> keras.Model:
    """Return Llama or a similar model: Mistral, Qwen, SmolLM3, Gemma 3.

    Source: Touvron et al. 2023, https://arxiv.org/abs/2302.13971.
    """
    family = fields.kind
    gemma = family.startswith("gemma3")
    for name in ("final_logit_softcapping", "attn_logit_softcapping"):
        fields.require(name, None)
    fields.require("use_bidirectional_attention", False)
    # Published files of Gemma 3 with pictures leave out what is as in its smallest model.
    width, heads = (
        fields.number("hidden_size"),
        fields.number("num_attention_heads", 8 if gemma else None),
    )
    count, size = fields.number("num_hidden_layers"), fields.get("head_dim", None)
    size = size or (256 if gemma else width // heads)
    epsilon = fields.real("rms_norm_eps", 1e-6)
    bias = bool(fields.get("attention_bias", False))
    scale = fields.real("query_pre_attn_scalar", 256.0) ** -0.5 if gemma else 0.0
    turned, reaches = read_turned(fields, count), read_reaches(fields, count)
    wide = read_rotation(fields, "full_attention", 1e6 if gemma else 10000.0)
    near = wide
    if gemma:
        near = {"theta": fields.real("rope_local_base_freq", 10000.0), "scaling": None}
        if SLIDING in (fields.get("rope_parameters", None) or {}):
            near = read_rotation(fields, SLIDING)
    # Gemma 3 stores factors minus 1.
    offset = 1.0 if gemma else 0.0
    norm, blocks = {"kind": "rms", "epsilon": epsilon, "offset": offset}, []
    for number in range(count):
        rotation = near if reaches[number] else wide
        attention = {
            "heads": heads,
            "groups": fields.get("num_key_value_heads", 4 if gemma else heads),
            "head_size": size,
            "bias": bias or family == "qwen2",
            "output_bias": bias,
            "norm_epsilon": epsilon if family == "qwen3" or gemma else 0.0,
            "norm_offset": offset,
            "scale": scale,
            "dropout": settings.attention_dropout,
            **(rotation if turned[number] else {}),
        }
        blocks.append(
            {
                "attention": attention,
                "inner": fields.number("intermediate_size"),
                "activation": activation(
                    fields,
                    "hidden_activation" if gemma else "hidden_act",
                    "gelu_pytorch_tanh" if gemma else "silu",
                ),
                "norm": norm,
                "gated": True,
                "bias": bool(fields.get("mlp_bias", False)),
                "after_norms": gemma,
                "reach": reaches[number],
                "dropout": settings.dropout,
            }
        )
    return Decoder(
        vocabulary_size=fields.number("vocab_size", 262208 if gemma else None),
        hidden_dim=width,
        blocks=blocks,
        norm=norm,
        max_sequence_length=fields.number("max_position_embeddings", 131072),
        tied=bool(fields.get("tie_word_embeddings", gemma or family == "smollm3")),
        embedding_scale=width**0.5 if gemma else 1.0,
        dropout=settings.dropout,
        ends=ends,
        name="encoder",
    )


def assign_llama(weights: Weights, decoder: Decoder) -> None:
    """Assign the weights of Llama or a similar model."""
    weights.strip_prefix("embed_tokens.weight")
    assign_embedding(weights, decoder, "embed_tokens.weight")
    weights.assign(decoder.final_norm, "norm")
    names = GEMMA if "attention_after" in decoder.transformer_layers[0].norms else LLAMA
    for number, layer in enumerate(decoder.transformer_layers):
        assign_block(weights, layer, f"layers.{number}", names)


def make_bert(
    fields: Fields, weights: Weights, settings: CoreSettings, ends: list[int]
) -> keras.Model:
    """Return a BERT that reads from left to right, such as pretraining's objective causal trains.

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805.
    """
    for name, value in (("add_cross_attention", False), ("tie_word_embeddings", True)):
        fields.require(name, value)
    fields.require("position_embedding_type", "absolute")
    fields.skip("type_vocab_size", "attention_probs_dropout_prob")
    width, heads = fields.number("hidden_size"), fields.number("num_attention_heads")
    norm = {"kind": "layer", "epsilon": fields.real("layer_norm_eps", 1e-12)}
    used = activation(fields, "hidden_act", "gelu")  # by the layers and the head
    block = {
        "attention": {
            "heads": heads,
            "groups": heads,
            "head_size": width // heads,
            "bias": True,
            "output_bias": True,
            "dropout": settings.attention_dropout,
        },
        "inner": fields.number("intermediate_size"),
        "activation": used,
        "norm": norm,
        "bias": True,
        "norm_first": False,
        "dropout": settings.dropout,
    }
    return BertDecoder(
        activation=used,
        vocabulary_size=fields.number("vocab_size"),
        hidden_dim=width,
        blocks=[block] * fields.number("num_hidden_layers"),
        norm=norm,
        max_sequence_length=fields.number("max_position_embeddings", 512),
        has_positions=True,
        dropout=settings.dropout,
        ends=ends,
        name="encoder",
    )


def assign_bert(weights: Weights, decoder: BertDecoder) -> None:
    """Assign the weights of a causal BERT."""
    weights.strip_prefix("embeddings.word_embeddings.weight")
    described: Any = decoder.options["described"] or {}
    weights.join_segments(described.get("type_vocab_size", 2), decoder.hidden_dim)
    table = decoder.token_embedding
    weights.put(table.embeddings, "embeddings.word_embeddings.weight")
    weights.put(decoder.position_embedding.embeddings, files.POSITIONS)
    weights.assign(decoder.final_norm, "embeddings.LayerNorm")
    for number, layer in enumerate(decoder.transformer_layers):
        assign_block(weights, layer, f"encoder.layer.{number}", BERT)
    weights.assign(table.head_dense, f"{files.BERT_HEAD}.transform.dense")
    weights.assign(table.head_norm, f"{files.BERT_HEAD}.transform.LayerNorm")
    weights.put(table.bias, f"{files.BERT_HEAD}.bias")


# -------------------------------------------------------------- encoders with decoders


def make_bart(
    fields: Fields, weights: Weights, settings: CoreSettings, ends: list[int]
) -> keras.Model:
    """Return BART. Source: Lewis et al. 2019, https://arxiv.org/abs/1910.13461."""
    for name in ("normalize_before", "add_final_layer_norm", "static_position_embeddings"):
        fields.require(name, False)
    for name in ("normalize_embedding", "tie_word_embeddings"):
        fields.require(name, True)
    fields.require("extra_pos_embeddings", 2)
    width, norm = fields.number("d_model"), {"kind": "layer", "epsilon": 1e-5}
    rows = fields.number("max_position_embeddings", 1024)

    def blocks(side: str) -> list[dict]:
        heads = fields.number(f"{side}_attention_heads")
        attention = {
            "heads": heads,
            "groups": heads,
            "head_size": width // heads,
            "bias": True,
            "output_bias": True,
            "dropout": settings.attention_dropout,
        }
        block = {
            "attention": attention,
            "inner": fields.number(f"{side}_ffn_dim"),
            "activation": activation(fields, "activation_function", "gelu"),
            "norm": norm,
            "bias": True,
            "norm_first": False,
            "dropout": settings.dropout,
        }
        return [block] * fields.number(f"{side}_layers")

    return EncoderDecoder(
        vocabulary_size=fields.number("vocab_size"),
        hidden_dim=width,
        encoder_blocks=blocks("encoder"),
        decoder_blocks=blocks("decoder"),
        norm=norm,
        norm_place="embeddings",
        max_sequence_length=rows,
        embedding_scale=width**0.5 if fields.get("scale_embedding", False) else 1.0,
        score_bias=True,
        dropout=settings.dropout,
        before=[fields.number("decoder_start_token_id", 2)],
        begin=fields.number("bos_token_id", 0),
        ends=ends,
        name="encoder",
    )


def assign_bart(weights: Weights, writer: EncoderDecoder) -> None:
    """Assign the weights of BART."""
    assign_embedding(weights, writer, weights.find_shared())
    weights.default(files.SCORE_BIAS, (1, writer.vocabulary_size))
    weights.put(writer.score_bias, files.SCORE_BIAS)
    for side, layers in (("encoder", writer.readers), ("decoder", writer.writers)):
        # The first two rows belong to no position.
        name = f"{side}.embed_positions.weight"
        weights.put(writer.positions[side].embeddings, name, first_row=2)
        weights.assign(writer.norms[side], f"{side}.layernorm_embedding")
        for number, layer in enumerate(layers):
            assign_block(weights, layer, f"{side}.layers.{number}", BART)


def make_t5(
    fields: Fields, weights: Weights, settings: CoreSettings, ends: list[int]
) -> keras.Model:
    """Return T5, T5.1.1 or mT5.

    Source: Raffel et al. 2020, https://arxiv.org/abs/1910.10683.
    """
    kind = fields.get("feed_forward_proj", "relu")
    gated = kind.startswith("gated-")
    # gated-gelu means the tanh approximation.
    acts = {"gated-gelu": "gelu_new"}
    fields.values["feed_forward_proj"] = acts.get(kind, kind.removeprefix("gated-"))
    fields.skip("is_gated_act", "dense_act_fn", "tie_word_embeddings", "scale_decoder_outputs")
    width, heads = fields.number("d_model"), fields.number("num_heads")
    norm = {"kind": "rms", "epsilon": fields.real("layer_norm_epsilon", 1e-6)}
    block = {
        "attention": {
            "heads": heads,
            "groups": heads,
            "head_size": fields.number("d_kv"),
            "scale": 1.0,
            "dropout": settings.attention_dropout,
        },
        "inner": fields.number("d_ff"),
        "activation": activation(fields, "feed_forward_proj", "relu"),
        "norm": norm,
        "gated": gated,
        "dropout": settings.dropout,
    }
    named = fields.values.get("tie_word_embeddings", fields.kind == "t5") is not False
    scaled = fields.values.get("scale_decoder_outputs", named) and fields.kind == "t5"
    count = fields.number("num_layers")
    return EncoderDecoder(
        vocabulary_size=fields.number("vocab_size"),
        hidden_dim=width,
        encoder_blocks=[block] * count,
        decoder_blocks=[block] * (fields.get("num_decoder_layers", None) or count),
        norm=norm,
        norm_place="end",
        relative={
            "heads": heads,
            "buckets": fields.number("relative_attention_num_buckets", 32),
            "farthest": fields.number("relative_attention_max_distance", 128),
        },
        tied=is_tied(weights, named),
        score_scale=width**-0.5 if scaled else 1.0,
        dropout=settings.dropout,
        before=[],
        begin=fields.number("decoder_start_token_id", 0),
        ends=ends,
        name="encoder",
    )


def is_tied(weights: Weights, named: bool) -> bool:
    """Return whether the token table of a T5 also scores tokens.

    Args:
        weights: a head that is no copy of the table is another one.
        named: whether config.json says so; decides where there are no weights.
    """
    if not weights.readers:
        return named
    head, table = (weights.readers.get(name) for name in (files.HEAD, weights.find_shared()))
    return not head or bool(named and table and np.array_equal(head(), table()))


def assign_t5(weights: Weights, writer: EncoderDecoder) -> None:
    """Assign the weights of T5, T5.1.1 or mT5."""
    assign_embedding(weights, writer, weights.find_shared())
    gated = writer.readers[0].gate is not None
    for side, layers in (("encoder", writer.readers), ("decoder", writer.writers)):
        relative = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights.put(writer.distances[side].table, relative)
        weights.assign(writer.norms[side], f"{side}.final_layer_norm")
        names = name_t5(1 if side == "encoder" else 2, gated)
        for number, layer in enumerate(layers):
            assign_block(weights, layer, f"{side}.block.{number}", names)


# model_type of config.json -> its family.
FAMILIES = {
    "gpt2": Kind(make_gpt2, assign_gpt2, "GPT2LMHeadModel", "transformer.", True),
    "llama": Kind(make_llama, assign_llama, "LlamaForCausalLM", "model.", True),
    "mistral": Kind(make_llama, assign_llama, "MistralForCausalLM", "model.", True),
    "qwen2": Kind(make_llama, assign_llama, "Qwen2ForCausalLM", "model.", True),
    "qwen3": Kind(make_llama, assign_llama, "Qwen3ForCausalLM", "model.", True),
    "smollm3": Kind(make_llama, assign_llama, "SmolLM3ForCausalLM", "model.", True),
    "gemma3_text": Kind(make_llama, assign_llama, "Gemma3ForCausalLM", "model.", True),
    "gemma3": Kind(make_llama, assign_llama, "Gemma3ForCausalLM", "model.", True),
    files.CAUSAL_BERT: Kind(make_bert, assign_bert, "BertLMHeadModel", "bert.", True),
    "bart": Kind(make_bart, assign_bart, "BartForConditionalGeneration", "model.", False),
    "t5": Kind(make_t5, assign_t5, "T5ForConditionalGeneration", "", False),
    "mt5": Kind(make_t5, assign_t5, "MT5ForConditionalGeneration", "", False),
}


def asked_by(settings: CoreSettings) -> str:
    """Return the setting that asks for a writer; empty: none."""
    if getattr(settings, "objective", None) == TRAINED:
        return f'objective = "{TRAINED}"'
    return 'model = "pretrained"' if writes(settings) else ""


def make_writer(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the writer of a folder; None: the settings ask for an encoder.

    Raises:
        InputError: the folder has another family, or the settings ask for another kind of model.
    """
    asked, family = asked_by(settings), files.read_family(folder)
    if classifies(settings):
        return read_decoder(settings, folder)
    if learns_texts(settings):
        check_objective(settings, family)
        return read_writer(settings, folder) if family in FAMILIES else None
    if TRAINED in asked:
        if family != "bart":
            raise InputError(
                f"{asked} continues only from a BART, and {settings.encoder} is a "
                f'{family or "preset"}: name a BART, or set encoder = "tiny".'
            )
        return read_writer(settings, folder)
    if not asked:
        model = getattr(settings, "model", None)
        if model is not None and family in FAMILIES:
            raise InputError(
                f"{settings.encoder} is a {family}, which writes by itself: set model = "
                '"pretrained", or choose an encoder.'
            )
        return None
    if family not in FAMILIES:
        raise InputError(
            f"{asked} needs a writer, and {settings.encoder} is a {family or 'preset'}: "
            f'choose one of the families {", ".join(FAMILIES)}, or model = "unilm".'
        )
    is_decoder = FAMILIES[family].is_decoder
    if packs(settings) and not is_decoder:
        raise InputError(
            f"writers.packing = true is for decoder-only writers, and {settings.encoder} is a "
            f"{family}, which reads sources and targets apart: set packing = false."
        )
    writer = read_writer(settings, folder)
    check_room(settings, writer, is_decoder)
    return writer


def check_objective(settings: Any, family: str) -> None:
    """Refuse a writer whose family does not learn the objective of pre-training.

    Args:
        settings: `objective`, `encoder`.
        family: of the encoder's folder.

    Raises:
        InputError: it is a decoder and the objective another one, or it is no decoder.
    """
    if family in FAMILIES and not FAMILIES[family].is_decoder:
        raise InputError(
            f"{settings.encoder} is a {family}, which reads with one half and writes with the "
            'other: only a BART goes on, with objective = "denoising".'
        )
    if family in FAMILIES and settings.objective != "causal":
        raise InputError(
            f"{settings.encoder} is a {family}, whose tokens see only those before them: set "
            f'objective = "causal" instead of {settings.objective!r}.'
        )


def read_decoder(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the decoder-only writer of a folder, for classification; None: an encoder.

    Raises:
        InputError: the folder has an encoder-decoder.
    """
    kind = FAMILIES.get(files.read_family(folder))
    if kind is not None and not kind.is_decoder:
        names = ", ".join(name for name, other in FAMILIES.items() if other.is_decoder)
        raise InputError(
            f"{settings.encoder} is a {files.read_family(folder)}, which reads with one half and "
            f"writes with the other: choose an encoder, or one of the families {names}."
        )
    if kind is None:
        return None
    writer, table = read_writer(settings, folder), getattr(settings, "writers", None)
    if table is not None and table.answers:
        writer.answers = writer.options["answers"] = frames.find_answers(folder, table.words)
    return writer


def read_writer(settings: CoreSettings, folder: Path) -> keras.Model:
    """Return the writer of a folder, or a new one with its architecture.

    Raises:
        InputError: its files can't be read, or don't fit together.
    """
    fields = files.Fields(folder / "config.json")
    fields.require("quantization_config", None)
    table: Any = getattr(settings, "writers", None)
    is_new = table is not None and table.weights == "random"
    if not is_new:
        files.fetch_weights(settings.encoder, folder)
    weights = files.open_weights(folder, files.UnreadWeights if is_new else files.Weights)
    kind, ends = FAMILIES[fields.kind], files.read_ends(folder, fields)
    # The text part of a Gemma 3 with pictures is a separate model.
    family = {"gemma3": "gemma3_text", files.CAUSAL_BERT: "bert"}.get(fields.kind, fields.kind)
    described = {**fields.values, "model_type": family}
    writer = kind.make(fields, weights, settings, ends)
    writer.options["described"] = described
    if max(ends) >= writer.vocabulary_size:
        raise InputError(
            f"{folder}: eos_token_id names the token {max(ends)}, and the writer has "
            f"{writer.vocabulary_size} tokens: take config.json and generation_config.json of one "
            "model."
        )
    kind.assign(weights, writer)
    weights.finish()
    fields.finish()
    if is_new:
        begin_anew(writer)
    return writer


def begin_anew(writer: Any) -> None:
    """Initialise a new writer: kernels scaled to their inputs, positions as sinusoids.

    A standard deviation of 0.02 only suits wide models. With 1 / sqrt(inputs) narrow models also
    attend from the first step on. With sinusoids neighbouring positions have similar vectors, so
    the model learns "the token after this one", which copying needs, for all positions at once.
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762.
    """
    for weight in writer.weights:
        if weight.name == "kernel":
            weight.assign(weight * (weight.shape[0] ** -0.5 / INITIAL_DEVIATION))
    for block in writer.transformer_layers:
        for attention in filter(None, (block.attention, block.cross)):
            kernel = attention.query.kernel  # T5 does not scale the scores
            kernel.assign(kernel * (attention.head_size**-0.5 / attention.scale))
    scored = writer.token_embedding.embeddings
    scored.assign(scored / getattr(writer, "score_scale", 1.0))
    tables = getattr(writer, "positions", None) or {"": getattr(writer, "position_embedding", None)}
    for table in filter(None, tables.values()):
        rows, width = table.embeddings.shape
        angles = np.arange(rows)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
        table.embeddings.assign(INITIAL_DEVIATION * np.sqrt(2) * waves)


def load_writer(settings: CoreSettings, tokenizer: Tokenizer) -> keras.Model:
    """Return the writer in `encoder`.

    Raises:
        InputError: a KerasHub preset, which is not in Hugging Face format.
    """
    writer, table = load_encoder(settings, tokenizer), getattr(settings, "writers", None)
    if not hasattr(writer, "write"):
        raise InputError(
            f"{asked_by(settings)} needs a folder in the format of Hugging Face, or "
            f"hf://owner/model, and encoder = {settings.encoder!r} is a preset: name such a folder."
        )
    if table is not None and table.chat:
        chat.teach_end(writer, tokenizer, table)
    return writer


def check_room(settings: CoreSettings, writer: keras.Model, is_decoder: bool) -> None:
    """Refuse targets longer than the writer's positions.

    Raises:
        InputError: they are too long.
    """
    room, target = writer.max_sequence_length, getattr(settings, "target_length", 0)
    needed = settings.max_length + target if is_decoder else target + 1
    if room and needed > room:
        what = "max_length + target_length" if is_decoder else "target_length + 1"
        raise InputError(
            f"{what} = {needed}, but {settings.encoder} has {room} positions: lower one."
        )
