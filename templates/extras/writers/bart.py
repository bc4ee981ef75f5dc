"""A BART from scratch, for `objective = "denoising"` of pre-training.

Source: Lewis et al. 2019, https://arxiv.org/abs/1910.13461.
"""

from pathlib import Path
from typing import Any

import keras
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.writers import families, files

HEAD_SIZE = 64  # attention heads, as in BERT


def load_writer(settings: CoreSettings, tokenizer: Tokenizer) -> keras.Model:
    """Return the BART to train: a new or an existing one.

    Args:
        settings: `encoder`; for a new one `tiny_layers` per side, `tiny_width`, `max_length`;
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
    families.begin_anew(writer)
    writer.options["described"] = fields.values
    return writer


def describe_new(settings: CoreSettings, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return config.json of a new BART."""
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
        "model_type": "bart",
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "vocab_size": tokenizer.get_vocab_size(),
        "d_model": width,
        **sides,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_function": "gelu_new",
        "max_position_embeddings": settings.max_length,
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "bos_token_id": begin,
        "eos_token_id": end,
        # As in BART, the end token also comes before the written text.
        "decoder_start_token_id": end,
    }
