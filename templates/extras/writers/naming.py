"""A writer in Hugging Face format: config.json, weights by name, tokenizer files.

The functions that assign a family's weights contain the names; here they only collect the names.
"""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from extras.writers.chat import NAME, carried_by
from extras.writers.families import FAMILIES
from extras.writers.files import (
    BERT_HEAD,
    HEAD,
    SCORE_BIAS,
    SEGMENTS,
    SHARED,
    Weights,
    family_of,
    is_turned,
)

Tensors = dict[str, np.ndarray]
# Fields of the read file that don't apply to the written one.
LEFT_OUT = ("torch_dtype", "auto_map", "transformers_version")


class Names(Weights):
    """Replaces the weights of a file: collects the values of a writer by name."""

    def __init__(self) -> None:
        super().__init__(Path(), {})
        self.tensors: Tensors = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def default(self, name: str, shape: tuple[int, ...]) -> None:
        """Record the shape of a tensor."""
        self.shapes[name] = shape

    def put(
        self, variable: keras.Variable, name: str, transposed: bool = False, first_row: int = 0
    ) -> None:
        """Keep the value of a variable; unused leading rows are 0."""
        value = np.asarray(keras.ops.convert_to_numpy(variable.value), np.float32)
        value = value.T if transposed else value
        value = np.pad(value, ((first_row, 0), *[(0, 0)] * (value.ndim - 1)))
        self.tensors[name] = np.ascontiguousarray(value).reshape(self.shapes.get(name, value.shape))

    def find_shared(self) -> str:
        """Return the name of the token table that both sides share."""
        return SHARED[0]

    def join_segments(self, rows: int, width: int) -> None:
        """Keep segments of zeros: that of all tokens is part of the positions."""
        self.tensors[SEGMENTS] = np.zeros((rows, width), np.float32)

    def join_gpt2(self) -> None:
        """Join queries, keys and values of GPT-2, and transpose its matrices."""
        tensors = {}
        for name, value in self.tensors.items():
            before, _, kind = name.rpartition(".query.")
            if before:
                parts = [
                    self.tensors[f"{before}.{own}.{kind}"] for own in ("query", "key", "value")
                ]
                tensors[f"{before}.c_attn.{kind}"] = np.ascontiguousarray(np.concatenate(parts).T)
            elif is_turned(name):
                tensors[name] = np.ascontiguousarray(value.T)
            elif ".attn.key." not in name and ".attn.value." not in name:
                tensors[name] = value
        self.tensors = tensors


def describe_encoder(writer: Any) -> tuple[dict[str, Any], Tensors]:
    """Return config.json and the weights by name.

    Raises:
        InputError: the run is older than the stored config.json.
    """
    described = writer.options["described"]
    if described is None:
        raise InputError(
            "this run was trained before writers kept their config.json: train it again, or leave "
            "the writer out with --no-encoder."
        )
    kind, names = FAMILIES[family_of(described)], Names()
    kind.assign(names, writer)
    if described["model_type"] == "gpt2":
        names.join_gpt2()
    whole = (HEAD, SCORE_BIAS, BERT_HEAD)
    tensors = {
        name if name.startswith(whole) else kind.prefix + name: value
        for name, value in names.tensors.items()
    }
    config = {name: value for name, value in described.items() if name not in LEFT_OUT}
    config |= {"architectures": [kind.architecture], "dtype": "float32"}
    config["eos_token_id"] = writer.ends if len(writer.ends) > 1 else writer.ends[0]
    if described["model_type"] == "bart":
        config["forced_bos_token_id"] = writer.begin
    return config, tensors


def describe_tokenizer(tokenizer: Tokenizer, writer: Any) -> tuple[dict, dict, str | None]:
    """Return tokenizer.json, tokenizer_config.json, and None instead of vocab.txt.

    Args:
        tokenizer: of the writer.
        writer: names the tokens that begin and end a text.
    """
    numbers = {"eos": writer.ends[0]}
    numbers |= {
        name: writer.options["described"].get(f"{name}_token_id")
        for name in ("bos", "pad", "sep", "cls")
    }
    tokens = {
        f"{name}_token": tokenizer.id_to_token(number)
        for name, number in numbers.items()
        if isinstance(number, int) and tokenizer.id_to_token(number)
    }
    if template := carried_by(tokenizer):
        tokens |= {**template.tokens, NAME: template.text}
    # No writer reads segments.
    names = {"model_input_names": ["input_ids", "attention_mask"]}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names, **tokens}
    length = writer.max_sequence_length
    whole = json.loads(tokenizer.to_str())
    return whole, config | ({"model_max_length": length} if length else {}), None
