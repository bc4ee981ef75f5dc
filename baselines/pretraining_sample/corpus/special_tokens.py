"""The tokens that are no text: those around it, and those that hide it."""

from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.data.tokens import SPECIAL_TOKENS


@dataclass(frozen=True)
class SpecialTokens:
    """Token ids of a tokenizer.

    Attributes:
        pad: fills up.
        begin: stands before a text.
        end: stands after it.
        mask: stands for a hidden token.
        is_special: bool `[vocabulary]`: all that are no text, the unknown one among them.
        ordinary: all others.
    """

    pad: int
    begin: int
    end: int
    mask: int
    is_special: np.ndarray
    ordinary: np.ndarray


def find_special_tokens(tokenizer: Tokenizer) -> SpecialTokens:
    """Return the special tokens of a BERT's tokenizer.

    Raises:
        InputError: it has no [MASK], or puts no tokens around a text.
    """
    frame = tokenizer.encode("").ids
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    if len(frame) != 2 or ids["[MASK]"] is None or ids["[PAD]"] is None:
        raise InputError(
            "the tokenizer lacks [PAD], [MASK] or the two tokens around a text: go on from a BERT, "
            "or set encoder = tiny."
        )
    added = tokenizer.get_added_tokens_decoder().items()
    is_special = np.zeros(tokenizer.get_vocab_size(), bool)
    is_special[[number for number, token in added if token.special]] = True
    is_special[[number for number in ids.values() if number is not None]] = True
    is_special[frame] = True
    return SpecialTokens(
        ids["[PAD]"], frame[0], frame[-1], ids["[MASK]"], is_special, np.flatnonzero(~is_special)
    )
