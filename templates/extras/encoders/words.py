"""The tokenizer of RoFormer: jieba finds its Chinese words, BERT splits the rest.

Source: https://github.com/ZhuiyiTechnology/roformer; texts are split as in transformers.
"""

import re
from pathlib import Path
from typing import Any

from tokenizers import NormalizedString, PreTokenizedString, Tokenizer, normalizers, pre_tokenizers

from core.base.errors import InputError

WORD = re.compile(r"[\u4e00-\u9fff]{2,}")


class WordTokenizer:
    """A tokenizer that can be saved although Python code splits its texts.

    The inner tokenizer does everything except `to_str`. The saved tokenizer has BERT's splitting;
    loading it for a RoFormer adds the Python code again.

    Args:
        tokenizer: WordPiece with BERT's splitting.
        path: its file, for messages.
    """

    def __init__(self, tokenizer: Tokenizer, path: Path) -> None:
        self.saved, self.path = tokenizer.to_str(), path
        cut = pre_tokenizers.PreTokenizer.custom(WordCutter(tokenizer.get_vocab(), path))
        tokenizer.pre_tokenizer = cut
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "tokenizer":  # it is being copied and has no tokenizer yet
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __reduce__(self) -> tuple:
        # Another process makes its own Python code.
        return restore, (self.saved, self.path)

    def to_str(self) -> str:
        """Return the tokenizer as JSON, without the Python code."""
        return self.saved


def restore(saved: str, path: Path) -> WordTokenizer:
    """Return the tokenizer in another process."""
    return WordTokenizer(Tokenizer.from_str(saved), path)


class WordCutter:
    """Splits a text into words of the vocabulary, and the rest like BERT.

    Args:
        vocabulary: its tokens.
        path: their file.

    Raises:
        InputError: the package jieba is absent.
    """

    def __init__(self, vocabulary: dict[str, int], path: Path) -> None:
        try:
            import rjieba
        except ImportError as error:
            raise InputError(
                f"{path} holds Chinese words, which the package rjieba finds in a text: "
                "pip install -r extras/encoders/requirements.txt"
            ) from error
        self.find_words = rjieba.tokenize
        self.vocabulary = vocabulary
        self.spaces = normalizers.BertNormalizer(
            clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
        )

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Split a text in place."""
        text.split(self.cut)

    def cut(self, _: int, text: NormalizedString) -> list[Any]:
        """Return the parts of a text with their offsets."""
        parts: list[Any] = []
        for word, start, end in self.find_words(str(text), hmm=False):
            if word in self.vocabulary:
                parts.append(text[start:end])
                continue
            for part in self.spaces.normalize_str(word).split():
                parts.append(text[start : start + len(part)])
                start += len(part)
        return parts


def holds_words(vocabulary: dict[str, int]) -> bool:
    """Return whether a vocabulary has Chinese words, not only characters."""
    return any(WORD.fullmatch(token) for token in vocabulary)
