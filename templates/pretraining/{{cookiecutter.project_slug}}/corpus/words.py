"""Where words begin among tokens: what is masked as a whole.

Cui et al., "Pre-Training with Whole Word Masking for Chinese BERT", 2021: the pieces of a word, and
the characters of a Chinese word, are masked together, or the rest gives the answer away.
"""

import re

import numpy as np
import rjieba
from tokenizers import Encoding

# Ideographs, each of which is a token of its own; text with kana is Japanese, which the dictionary
# of Chinese words knows nothing of.
IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
KANA = re.compile("[\u3041-\u30ff\uff66-\uff9f]")
# Scripts without spaces between words: a tokenizer that splits at spaces finds none there.
THAI_LAO_BURMESE_KHMER = "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]"
UNSPACED = re.compile(f"{IDEOGRAPH.pattern}|{KANA.pattern}|{THAI_LAO_BURMESE_KHMER}")


def find_word_starts(
    text: str, encoding: Encoding, words: str, splits_words: bool = True
) -> np.ndarray:
    """Tell which tokens begin a word.

    Args:
        text: one line.
        encoding: its tokens, without special ones.
        words: `tokens`: each token is a word. `spaces`: the text between spaces and punctuation
            is one, and so is each Chinese character. `auto`: where text holds Chinese, its words
            as well.
        splits_words: whether the tokenizer splits text as BERT does; others split it at spaces.

    Returns:
        `[tokens]`, bool; the first is always True.
    """
    if words == "tokens":
        return np.ones(len(encoding), bool)
    numbers = np.array(encoding.word_ids)
    begins = np.ones(len(encoding), bool)
    begins[1:] = numbers[1:] != numbers[:-1]
    if not splits_words:
        begins[1:] |= leaves_word(text, np.array(encoding.offsets))
    if words == "auto" and IDEOGRAPH.search(text) and not KANA.search(text):
        begins[1:] &= ~continues_chinese_word(text, np.array(encoding.offsets))
    return begins


def leaves_word(text: str, offsets: np.ndarray) -> np.ndarray:
    """Tell which tokens begin a word although no space is before them.

    They follow punctuation or are punctuation, or they are of a script without spaces. The bytes of
    one character stay together.

    Args:
        text: one line.
        offsets: `[tokens, 2]`, characters; a token may hold the space before it.

    Returns:
        `[tokens - 1]`, bool: for all tokens but the first.
    """
    spaces, letters, unspaced = (np.zeros(len(text) + 1, bool) for _ in range(3))
    spaces[: len(text)] = np.fromiter(map(str.isspace, text), bool, len(text))
    letters[: len(text)] = np.fromiter(map(str.isalnum, text), bool, len(text))
    unspaced[[match.start() for match in UNSPACED.finditer(text)]] = True
    ends_before, starts = offsets[:-1, 1], offsets[1:, 0]
    last, first = ends_before - 1, starts + spaces[starts]
    apart = ~letters[last] | ~letters[first] | unspaced[last] | unspaced[first]
    return apart & ~spaces[last] & (starts >= ends_before)


def continues_chinese_word(text: str, offsets: np.ndarray) -> np.ndarray:
    """Tell which tokens go on with the Chinese word of the token before.

    Only between two ideographs: a number or a Latin name in a word of the dictionary stays apart.

    Args:
        text: one line.
        offsets: `[tokens, 2]`, characters.

    Returns:
        `[tokens - 1]`, bool: for all tokens but the first.
    """
    is_ideograph = np.zeros(len(text) + 1, bool)
    is_ideograph[[match.start() for match in IDEOGRAPH.finditer(text)]] = True
    starts_word = np.zeros(len(text) + 1, bool)
    starts_word[np.cumsum([len(word) for word in rjieba.cut(text)])] = True
    ends_before, starts = offsets[:-1, 1], offsets[1:, 0]
    return (
        (ends_before == starts)
        & is_ideograph[ends_before - 1]
        & is_ideograph[starts]
        & ~starts_word[starts]
    )
