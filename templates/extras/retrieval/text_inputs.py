"""Inputs of a bi-encoder: both texts of a pair, each encoded by itself."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

SIDES = ("text_a_", "text_b_")  # begin the names of the inputs of both texts
TEXTS_AT_ONCE = 1024


def text_inputs(
    tokenizer: Tokenizer, texts: Sequence[str], names: Sequence[str], max_length: int
) -> dict[str, list[np.ndarray]]:
    """Return the inputs of an encoder by name, one array `[length]` for each text.

    Args:
        tokenizer: of the encoder.
        texts: those that occur often are encoded once.
        names: of the inputs.
        max_length: tokens, special ones included; what is longer loses its end.
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
    tokenizer.no_truncation()  # it is saved with the run as it came
    return {name: [known[text][name] for text in texts] for name in names}
