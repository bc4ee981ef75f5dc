"""The tokens that are not text: those around it, and those that hide it."""

from dataclasses import dataclass, field

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError

# How vocabularies write the tokens that are not around a text.
FORMS = {name: (f"[{name.upper()}]", f"<{name}>") for name in ("pad", "unk", "mask")}
# What ends a sentence; the token between two lines of an example does so too.
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


@dataclass(frozen=True)
class SpecialTokens:
    """Token ids of a tokenizer.

    Attributes:
        pad: the padding token, or the end token if there is none: nothing reads padding.
        begin: comes before a text.
        end: comes after it.
        mask: replaces a hidden token; -1: nothing is hidden.
        is_special: bool `[vocabulary]`: all that are not text, the unknown one among them.
        ordinary: all others.
        sentence_ends: those of `SENTENCE_ENDS` that the tokenizer has, and `end`.
    """

    pad: int
    begin: int
    end: int
    mask: int
    is_special: np.ndarray
    ordinary: np.ndarray
    sentence_ends: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


def name_special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """Return `pad`, `unk`, `mask`, `cls`, `sep` -> token, for those that a tokenizer has."""
    found = {
        name: form
        for name, forms in FORMS.items()
        for form in forms
        if tokenizer.token_to_id(form) is not None
    }
    around = tokenizer.encode("").tokens
    return {**found, "cls": around[0], "sep": around[1]} if len(around) == 2 else found


def find_special_tokens(
    tokenizer: Tokenizer, objective: str = "masked", named: str = "the tokenizer"
) -> SpecialTokens:
    """Return the special tokens of an encoder's tokenizer.

    Args:
        tokenizer: of BERT, RoBERTa, or a family with the tokens of one of them; or of a decoder.
        objective: `causal` hides nothing.
        named: where it is from, for the message.

    Raises:
        InputError: it has no mask or padding token, or puts no tokens around a text.
    """
    names = name_special_tokens(tokenizer)
    needed = ("cls", "sep") if objective == "causal" else ("pad", "cls", "sep", "mask")
    missing = [name for name in needed if name not in names]
    if missing:
        tokens = {name: " or ".join(forms) for name, forms in FORMS.items()}
        tokens |= {"cls": "token before a text", "sep": "token after it"}
        shown = ", ".join(tokens[name] for name in missing)
        raise InputError(
            f"{named} has no {shown}: take the tokenizer.json of an encoder that was trained with "
            "hidden words, or set encoder = tiny."
        )
    numbers = tokenizer.get_vocab()
    ids = {name: numbers[token] for name, token in names.items()}
    added = tokenizer.get_added_tokens_decoder().items()
    is_special = np.zeros(tokenizer.get_vocab_size(), bool)
    is_special[[number for number, token in added if token.special]] = True
    is_special[list(ids.values())] = True
    ends = [tokenizer.token_to_id(token) for token in (*SENTENCE_ENDS, names["sep"])]
    return SpecialTokens(
        pad=ids.get("pad", ids["sep"]),
        begin=ids["cls"],
        end=ids["sep"],
        mask=ids.get("mask", -1),
        is_special=is_special,
        ordinary=np.flatnonzero(~is_special),
        sentence_ends=np.array([number for number in ends if number is not None], int),
    )
