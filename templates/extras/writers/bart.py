"""A BART from nothing for `objective = "denoising"`, and any BART as files of Hugging Face.

Source: Lewis et al. 2019, https://arxiv.org/abs/1910.13461.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.writers import families, files
from extras.writers.encoder_decoder import EncoderDecoder

HEAD_SIZE = 64  # of attention, as in BERT
# The name of an activation here -> in config.json.
ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu"}
PREFIX = "model."  # of the names of all weights but the bias of the logits


def load_writer(settings: CoreSettings, tokenizer: Tokenizer) -> keras.Model:
    """Return the BART that is trained: a new one, or one to go on with.

    Args:
        settings: `encoder`; of a new one `tiny_layers` on each side, `tiny_width`, `max_length`;
            `dropout`, `attention_dropout`.
        tokenizer: of BERT.

    Raises:
        InputError: `encoder` names something else.
    """
    if settings.encoder != "tiny":
        return families.load_writer(settings, tokenizer)
    fields = files.Fields(Path("config.json"), describe_new(settings, tokenizer))
    unread, ends = files.UnreadWeights(Path(), {}), [fields.number("eos_token_id")]
    writer = families.make_bart(fields, unread, settings, ends)
    families.begin_with_waves(writer)
    writer.options["described"] = make_config(writer, tokenizer)
    return writer


def describe_new(settings: CoreSettings, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the fields of config.json that a new BART is made from."""
    width, layers = settings.tiny_width, settings.tiny_layers
    begin, end = tokenizer.encode("").ids
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", layers),
            ("attention_heads", max(1, width // HEAD_SIZE)),
            ("ffn_dim", 4 * width),
        )
    }
    return {
        "vocab_size": tokenizer.get_vocab_size(),
        "d_model": width,
        **sides,
        "activation_function": "gelu_new",
        "max_position_embeddings": settings.max_length,
        "bos_token_id": begin,
        "eos_token_id": end,
        # As BART does: what ends a text stands before the one that is written, too.
        "decoder_start_token_id": end,
    }


def make_config(writer: EncoderDecoder, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the config.json of a BART.

    Args:
        writer: that was trained.
        tokenizer: whose [PAD] is named.
    """
    options: dict[str, Any] = writer.options
    fields: dict[str, Any] = {
        "model_type": "bart",
        "architectures": ["BartForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": writer.vocabulary_size,
        "d_model": writer.hidden_dim,
        "max_position_embeddings": writer.max_sequence_length,
        "scale_embedding": writer.embedding_scale != 1.0,
        "dropout": options["dropout"],
        "tie_word_embeddings": True,
        **special_tokens(writer, tokenizer),
    }
    for side in ("encoder", "decoder"):
        blocks = options[f"{side}_blocks"]
        fields[f"{side}_layers"] = len(blocks)
        fields[f"{side}_attention_heads"] = blocks[0]["attention"]["heads"]
        fields[f"{side}_ffn_dim"] = blocks[0]["inner"]
    fields["activation_function"] = ACTIVATIONS[blocks[0]["activation"]]
    return fields | {"attention_dropout": blocks[0]["attention"]["dropout"]}


def special_tokens(writer: EncoderDecoder, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokens around a text, as generation_config.json has them too."""
    begin, end = writer.frame
    return {
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "bos_token_id": begin,
        "eos_token_id": end,
        "decoder_start_token_id": writer.before[0],
        "forced_bos_token_id": begin,
    }


def name_weights(writer: EncoderDecoder) -> dict[str, np.ndarray]:
    """Return all weights of a BART under the names of Hugging Face."""
    found = files.CollectedWeights()
    families.assign_bart(found, writer)
    bias = "final_logits_bias"
    return {name if name == bias else PREFIX + name: a for name, a in found.arrays.items()}
