"""The tokenizer of RoFormer: jieba finds the Chinese words of its vocabulary, BERT cuts the rest.

Source: https://github.com/ZhuiyiTechnology/roformer; texts are cut as transformers does it.
"""

import re
from pathlib import Path
from typing import Any

from tokenizers import NormalizedString, PreTokenizedString, Tokenizer, normalizers, pre_tokenizers

from core.base.errors import InputError

WORD = re.compile(r"[\u4e00-\u9fff]{2,}")


class WordTokenizer:
    """A tokenizer that can be saved, though a program of Python cuts its texts.

    All but `to_str` is done by the tokenizer within: what is saved has BERT's cut in that place,
    and who loads it for a RoFormer gives it this one again.

    Args:
        tokenizer: WordPiece with BERT's cut.
        path: the file that it comes from, for what is said about it.
    """

    def __init__(self, tokenizer: Tokenizer, path: Path) -> None:
        self.saved, self.path = tokenizer.to_str(), path
        cut = pre_tokenizers.PreTokenizer.custom(WordCutter(tokenizer.get_vocab(), path))
        tokenizer.pre_tokenizer = cut
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "tokenizer":  # it is being copied, and has none yet
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def __reduce__(self) -> tuple:
        # Another process makes its own program.
        return restore, (self.saved, self.path)

    def to_str(self) -> str:
        """Return the tokenizer as JSON, without the program."""
        return self.saved


def restore(saved: str, path: Path) -> WordTokenizer:
    """Return the tokenizer that another process has."""
    return WordTokenizer(Tokenizer.from_str(saved), path)


class WordCutter:
    """Cuts a text into words of the vocabulary, and what is not one as BERT does.

    Args:
        vocabulary: its tokens.
        path: the file that they come from.

    Raises:
        InputError: the package that knows Chinese words is absent.
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
        """Cut a text in place."""
        text.split(self.cut)

    def cut(self, _: int, text: NormalizedString) -> list[Any]:
        """Return the parts of a text, each of which knows where it stands."""
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
    """Tell whether a vocabulary holds Chinese words, and not characters alone."""
    return any(WORD.fullmatch(token) for token in vocabulary)
