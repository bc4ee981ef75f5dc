"""What a search has written for a record: the best text, its score, and others where asked."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from generation.settings import GenerationTable, TargetTokens

# Characters of scripts without spaces.
SPACELESS = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class Written(NamedTuple):
    """The best text of a record and its score; `others` are the next best, if they are asked."""

    text: str
    score: float
    others: tuple[tuple[str, float], ...] = ()


def read_texts(
    outputs: dict[str, np.ndarray],
    tokens: TargetTokens,
    table: GenerationTable,
    tokenizer: Tokenizer,
) -> list[Written]:
    """Return what was written for each record of a batch.

    Args:
        outputs: of a `Writer`: `tokens` and `scores`.
        tokens: those that end a text.
        table: `stop`.
        tokenizer: of the texts.
    """
    rows = outputs["tokens"].reshape(-1, outputs["tokens"].shape[-1])
    ended = np.cumsum(np.isin(rows, tokens.ends), axis=1) > 0
    kept = [row[~over].tolist() for row, over in zip(rows, ended, strict=True)]
    texts = decode_texts(tokenizer, kept)
    if table.stop:
        stop = "|".join(map(re.escape, table.stop))
        texts = [re.split(stop, text, maxsplit=1)[0] for text in texts]
    found = list(zip(texts, outputs["scores"].ravel().tolist(), strict=True))
    many = len(found) // len(outputs["scores"])
    records = [found[first : first + many] for first in range(0, len(found), many)]
    return [
        Written(*best, tuple(one for one in others if one[1] > -math.inf))
        for best, *others in records
    ]


def describe_written(written: Written | tuple[str, float]) -> dict:
    """Return the fields of a predictions file for what was written."""
    text, score, *others = written
    record: dict = {"prediction": text, "score": round(score, 4)}
    if any(others):
        record["others"] = [{"prediction": t, "score": round(s, 4)} for t, s in others[0]]
    return record


def decode_texts(tokenizer: Tokenizer, ids: Sequence[Sequence[int]]) -> list[str]:
    """Return the texts that tokens stand for.

    WordPiece has lost spaces (and case, where it is lower-cased): they are put where written
    English and Chinese have them.

    Args:
        tokenizer: of the encoder.
        ids: tokens of each text, without begin and end.
    """
    texts = tokenizer.decode_batch([list(map(int, row)) for row in ids], skip_special_tokens=True)
    if type(tokenizer.model).__name__ == "WordPiece":
        return [close_gaps(text) for text in texts]
    return texts


def close_gaps(text: str) -> str:
    """Take away the spaces that separate tokens where writing has none."""
    text = re.sub(r"\s+([,.;:!?%)\]}\u2019])", r"\1", text)
    text = re.sub(r"([(\[{£$€#])\s+", r"\1", text)
    # a - b, it ' s and 1 . 5 are single words far more often than not.
    text = re.sub(r"(?<=\w)\s*([-'/])\s*(?=\w)", r"\1", text)
    text = re.sub(r"(?<=\d)([.,:])\s+(?=\d)", r"\1", text)
    wide = SPACELESS.pattern
    return re.sub(rf"(?<={wide})\s+|\s+(?={wide})", "", text).strip()
