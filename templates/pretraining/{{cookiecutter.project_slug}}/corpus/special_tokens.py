"""The tokens that are not text: those around it, and those that hide it."""

from dataclasses import dataclass, field

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.data.tokens import SPECIAL_TOKENS

# What ends a sentence, that between two lines of an example too.
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "[SEP]")


@dataclass(frozen=True)
class SpecialTokens:
    """Token ids of a tokenizer.

    Attributes:
        pad: fills up.
        begin: comes before a text.
        end: comes after it.
        mask: replaces a hidden token.
        is_special: bool `[vocabulary]`: all that are not text, the unknown one among them.
        ordinary: all others.
        sentence_ends: those of `SENTENCE_ENDS` that the tokenizer has.
    """

    pad: int
    begin: int
    end: int
    mask: int
    is_special: np.ndarray
    ordinary: np.ndarray
    sentence_ends: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


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
    ends = [tokenizer.token_to_id(token) for token in SENTENCE_ENDS]
    return SpecialTokens(
        pad=ids["[PAD]"],
        begin=frame[0],
        end=frame[-1],
        mask=ids["[MASK]"],
        is_special=is_special,
        ordinary=np.flatnonzero(~is_special),
        sentence_ends=np.array([number for number in ends if number is not None], int),
    )
