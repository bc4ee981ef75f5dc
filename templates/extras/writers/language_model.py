"""A decoder that goes on learning from plain text, for `objective = "causal"` of pre-training.

Each token is predicted from those before it. The template pretraining puts a token before and after
each example: the tokenizer here carries this frame, and everything that an export writes back.
"""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import read_json
from core.data.tokens import load_tokenizer_file
from extras.writers import files, naming
from extras.writers.chat import NAME, read_template
from extras.writers.decoder import Decoder

# The frame in a tokenizer: its tokens, and an entry with the files' own way.
BEGIN, END, KEPT = "begin of text", "end of text", "kept for an export"


@keras.saving.register_keras_serializable("writers")
class CausalLanguageModel(keras.layers.Layer):
    """A decoder that predicts each token of a text from those before it.

    Args:
        encoder: a `Decoder`, which scores the vocabulary itself.
        objective: `causal`, the only one for decoders.
    """

    def __init__(self, encoder: Decoder, objective: str = "causal", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder, self.objective = encoder, objective
        self.built = True

    def call(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> tf.Tensor:
        """Return the logits `[batch, slots, vocabulary]` of the next tokens.

        Args:
            token_ids: of the texts `[batch, length]`.
            segment_ids: not read, because decoders have no segments.
            padding_mask: 0 behind the end of a text.
            masked_positions: the first positions of each text, in order `[batch, slots]`.
            training: whether dropout is on.
        """
        hidden = self.encoder.transform(token_ids, padding_mask, training)
        return self.encoder.score(hidden[:, : ops.shape(masked_positions)[1]])

    def compute_output_spec(
        self, token_ids, segment_ids, padding_mask, masked_positions, training=None
    ) -> keras.KerasTensor:
        shape = (*masked_positions.shape, self.encoder.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict:
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder, "objective": self.objective}

    @classmethod
    def from_config(cls, config: dict) -> "CausalLanguageModel":
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})


def layer_of(objective: str) -> type[keras.layers.Layer]:
    """Return the class of the layer that learns an objective."""
    return CausalLanguageModel


def load_framed(folder: Path) -> Tokenizer | None:
    """Return the tokenizer of a decoder's folder, with a token before and after each text.

    The token before is the tokenizer's own, or else the one that ends a text, as GPT-2 was trained.

    Returns:
        The tokenizer; None: core reads it, and it has such tokens itself, as BERT's.

    Raises:
        InputError: there is no tokenizer.json, or it lacks the token that ends a text.
    """
    path = folder / "tokenizer.json"
    if files.read_family(folder) == files.CAUSAL_BERT:
        return files.load_tokenizer(folder, False)
    if not path.is_file():
        raise InputError(
            f"{folder} has no tokenizer.json, which going on from a decoder needs: save its "
            "tokenizer there, in the fast format of Hugging Face."
        )
    end = files.read_ends(folder, files.Fields(folder / "config.json"))[0]
    tokenizer, plain = load_tokenizer_file(path), files.load_tokenizer(folder, True)
    if plain is None or tokenizer.id_to_token(end) is None:
        raise InputError(
            f"{folder / 'config.json'}: eos_token_id names the token {end}, which {path.name} "
            "lacks: take both files from one model."
        )
    begin = [*plain.encode("").ids, end][0]
    state = json.loads(tokenizer.to_str())
    kept = {"post_processor": state["post_processor"], "chat": find_chat(folder)}
    # Those of bytes only trim offsets; all others put tokens around a text.
    own = state["post_processor"] or {}
    parts = [part for part in own.get("processors", [own]) if part.get("type") == "ByteLevel"]
    state["post_processor"] = {"type": "Sequence", "processors": [*parts, frame_of(begin, end)]}
    entries = state["post_processor"]["processors"][-1]["special_tokens"]
    for name, number in ((BEGIN, begin), (END, end)):
        entries[name] = {"id": name, "ids": [number], "tokens": [tokenizer.id_to_token(number)]}
    # A special token that no layout has: a text is all that a tokenizer has room for.
    entries[KEPT] = {"id": KEPT, "ids": [0], "tokens": [json.dumps(kept, ensure_ascii=False)]}
    return Tokenizer.from_str(json.dumps(state))


def frame_of(begin: int, end: int) -> dict[str, Any]:
    """Return the post-processor of tokenizer.json that puts the frame around a text."""
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (BEGIN, END))
    text, second = ({"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B"))
    return {
        "type": "TemplateProcessing",
        "single": [first, text, last],
        "pair": [first, text, last, second, last],
        "special_tokens": {},
    }


def find_chat(folder: Path) -> dict[str, Any]:
    """Return the chat template and its tokens, as tokenizer_config.json has them; or nothing."""
    config = folder / "tokenizer_config.json"
    named = config.is_file() and read_json(config).get(NAME)
    if not named and not (folder / "chat_template.jinja").is_file():
        return {}
    template = read_template(folder, "tokenizer")
    return {**template.tokens, NAME: template.text}


def describe(
    model: CausalLanguageModel, tokenizer: Tokenizer
) -> tuple[dict, dict[str, np.ndarray], tuple]:
    """Return config.json, the weights by name, and the tokenizer's files as they were read.

    Args:
        model: that was trained.
        tokenizer: from `load_framed`.
    """
    state, chat = json.loads(tokenizer.to_str()), {}
    for part in (state["post_processor"] or {}).get("processors", []):
        if KEPT in part.get("special_tokens", {}):
            kept = json.loads(part["special_tokens"][KEPT]["tokens"][0])
            state["post_processor"], chat = kept["post_processor"], kept["chat"]
    config, tensors = naming.describe_encoder(model.encoder)
    plain = Tokenizer.from_str(json.dumps(state))
    whole, settings, _ = naming.describe_tokenizer(plain, model.encoder)
    return config, tensors, (whole, {**settings, **chat}, None)
