"""Inputs of a bi-encoder: both texts of a pair, encoded separately; needs no TensorFlow."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

SIDES = ("text_a_", "text_b_")  # prefixes of the inputs of both texts
TEXTS_AT_ONCE = 1024


def names_sides(names: Sequence[str]) -> bool:
    """Tell whether some inputs of a model read one text of a pair."""
    return any(name.startswith(SIDES) for name in names)


def pair_inputs(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, ...]], names: Sequence[str], max_length: int
) -> dict[str, list[np.ndarray]]:
    """Return the inputs of a bi-encoder by name, one array `[length]` for each pair.

    Args:
        tokenizer: of the encoder.
        pairs: both texts of each.
        names: of the inputs, which begin with one of `SIDES`.
        max_length: tokens of a text, special ones included.
    """
    found: dict[str, list[np.ndarray]] = {}
    for number, side in enumerate(SIDES):
        own = {name: name.removeprefix(side) for name in names if name.startswith(side)}
        texts = [pair[number] for pair in pairs]
        arrays = text_inputs(tokenizer, texts, list(own.values()), max_length)
        found |= {name: arrays[plain] for name, plain in own.items()}
    return found


def text_inputs(
    tokenizer: Tokenizer, texts: Sequence[str], names: Sequence[str], max_length: int
) -> dict[str, list[np.ndarray]]:
    """Return the inputs of an encoder by name, one array `[length]` per text.

    Args:
        tokenizer: of the encoder.
        texts: repeated ones are encoded once.
        names: of the inputs.
        max_length: tokens, special ones included; longer texts are cut at the end.
    """
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    unique = list(dict.fromkeys(texts))
    known: dict[str, dict[str, np.ndarray]] = {}
    for start in range(0, len(unique), TEXTS_AT_ONCE):
        chunk = unique[start : start + TEXTS_AT_ONCE]
        for text, encoding in zip(chunk, tokenizer.encode_batch(chunk), strict=True):
            arrays = {
                "token_ids": encoding.ids,
                "segment_ids": encoding.type_ids,
                "padding_mask": encoding.attention_mask,
            }
            known[text] = {name: np.array(arrays[name], np.int32) for name in names}
    tokenizer.no_truncation()  # the run saves the tokenizer as it was loaded
    return {name: [known[text][name] for text in texts] for name in names}
