"""A tokenizer that encodes each word once, however often it occurs in the texts."""

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from core.data.tokens import exact_offsets, token_rows

# Tokens that are remembered: beyond these all words are forgotten, so that memory stays small.
REMEMBERED = 1 << 18
LONG = 20  # characters of a word, on average, in texts of a script without spaces
# Parts of a tokenizer that look at no character beyond a space, and those that cut at each space.
NORMALIZERS = {"BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD"}
CUTTING = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
PRE_TOKENIZERS = CUTTING | {"Digits", "Punctuation"}


def encodes_words(tokenizer: Any) -> bool:
    """Tell whether the tokens of a text are those of its words, one word after the other."""
    if not isinstance(tokenizer, Tokenizer) or not isinstance(tokenizer.model, WordPiece):
        return False
    pre_tokenizers = kinds_of(tokenizer.pre_tokenizer)
    added = tokenizer.get_added_tokens_decoder().values()
    return (
        kinds_of(tokenizer.normalizer) <= NORMALIZERS
        and pre_tokenizers <= PRE_TOKENIZERS
        and bool(pre_tokenizers & CUTTING)
        and not any(t.normalized or t.lstrip or t.rstrip or " " in t.content for t in added)
    )


def kinds_of(part: Any) -> set[str]:
    """Return the kinds of a normalizer, or a pre-tokenizer, and of those in a sequence of them."""
    if part is None:
        return set()
    state = json.loads(part.__getstate__())
    own = state.get("normalizers", state.get("pretokenizers")) or [state]
    return {one["type"] for one in own}


class Framed:
    """An encoding of one text: what is read of it mostly, and all else when it is asked for.

    Args:
        before, own, after: ids of the special tokens before the text, of its own, and of those
            after it.
        encode: encodes the text.
    """

    def __init__(
        self, before: list[int], own: list[int], after: list[int], encode: Callable[[], Any]
    ) -> None:
        self.ids = [*before, *own, *after]
        self.type_ids = [0] * len(self.ids)
        self.sequence_ids = [*[None] * len(before), *[0] * len(own), *[None] * len(after)]
        self.encode = encode

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encode(), name)


class WordTokenizer:
    """A tokenizer, with the tokens of the words that it has encoded.

    A word is the text between two spaces. A corpus has few words that are not repeated: to find
    one again takes a fraction of the time that its encoding takes.

    Args:
        tokenizer: one that `encodes_words`; whatever else is asked of it, it answers.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.forget()

    def __reduce__(self) -> tuple:
        return WordTokenizer, (self.tokenizer,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def forget(self) -> None:
        """Begin without any word."""
        self.number_of: dict[str, int] = {}
        self.tokens = np.zeros((3, 0), np.int32)  # of all words: ids, starts and ends
        # Of each word: its first token, how many it has, and its characters with a space.
        self.words = np.zeros((3, 0), np.int64)

    def token_rows(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the tokens of texts, of each its ids, starts and ends `[3, tokens]`, as core."""
        if not texts:
            return []
        if self.tokens.shape[1] > REMEMBERED:
            self.forget()
        parts = [text.split(" ") for text in texts]
        if sum(map(len, texts)) > LONG * sum(map(len, parts)):  # few would be found again
            return token_rows(self.tokenizer, list(texts))
        self.learn({*itertools.chain.from_iterable(parts)} - self.number_of.keys())
        numbers = map(self.number_of.__getitem__, itertools.chain.from_iterable(parts))
        in_text = np.fromiter(map(len, parts), np.int64)
        firsts, counts, characters = self.words[:, np.fromiter(numbers, np.int64)]
        token_ends, word_ends = counts.cumsum(), in_text.cumsum()
        tokens = np.repeat(firsts - token_ends + counts, counts) + np.arange(token_ends[-1])
        places = characters.cumsum() - characters
        places -= np.repeat(places[word_ends - in_text], in_text)
        rows = self.tokens[:, tokens]
        rows[1:] += np.repeat(places, counts).astype(np.int32)
        return np.split(rows, token_ends[word_ends[:-1] - 1], axis=1)

    def encode_batch_fast(self, texts: Sequence[Any]) -> Sequence[Any]:
        """Return the encodings of texts, framed and cut; of pairs those of the tokenizer itself."""
        one, cut = self.tokenizer.encode("a"), self.tokenizer.truncation
        to_the_right = cut is None or cut["direction"] == "right"
        if any(one.type_ids) or not to_the_right or not all(isinstance(t, str) for t in texts):
            return self.tokenizer.encode_batch_fast(texts)
        own = [place for place, special in enumerate(one.special_tokens_mask) if not special]
        before, after = one.ids[: own[0]], one.ids[own[-1] + 1 :]
        room = cut["max_length"] - len(before) - len(after) if cut else None
        self.tokenizer.no_truncation()
        rows = self.token_rows(texts)
        if cut:
            self.tokenizer.enable_truncation(**cut)
        return [
            Framed(
                before, ids[:room].tolist(), after, functools.partial(self.tokenizer.encode, text)
            )
            for text, (ids, _, _) in zip(texts, rows, strict=True)
        ]

    def learn(self, words: Iterable[str]) -> None:
        """Encode words that are new."""
        new = list(words)
        encodings = self.tokenizer.encode_batch(new, add_special_tokens=False)
        ids: list[int] = []
        pairs: list[tuple[int, int]] = []
        for word, encoding in zip(new, encodings, strict=True):
            ids += encoding.ids
            if word.isascii() and len(word.split()) < 2:
                pairs += encoding.offsets
            else:
                pairs += zip(*exact_offsets(word, encoding.offsets), strict=True)
        counts = [*map(len, encodings)]
        firsts = self.tokens.shape[1] + np.cumsum(counts) - counts
        self.number_of.update(zip(new, itertools.count(len(self.number_of)), strict=False))
        own = np.array([ids, *np.array(pairs, np.int32).reshape(-1, 2).T], np.int32)
        self.tokens = np.concatenate([self.tokens, own], axis=1)
        about = np.array([firsts, counts, [len(word) + 1 for word in new]], np.int64)
        self.words = np.concatenate([self.words, about], axis=1)
