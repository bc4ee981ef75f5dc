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


def find_word_starts(text: str, encoding: Encoding, words: str) -> np.ndarray:
    """Tell which tokens begin a word.

    Args:
        text: one line.
        encoding: its tokens, without special ones.
        words: `tokens`: each token is a word. `spaces`: the text between spaces and punctuation
            is one, and so is each Chinese character. `auto`: where text holds Chinese, its words
            as well.

    Returns:
        `[tokens]`, bool; the first is always True.
    """
    if words == "tokens":
        return np.ones(len(encoding), bool)
    numbers = np.array(encoding.word_ids)
    begins = np.ones(len(encoding), bool)
    begins[1:] = numbers[1:] != numbers[:-1]
    if words == "auto" and IDEOGRAPH.search(text) and not KANA.search(text):
        begins[1:] &= ~continues_chinese_word(text, np.array(encoding.offsets))
    return begins


def continues_chinese_word(text: str, offsets: np.ndarray) -> np.ndarray:
    """Tell which tokens go on with the Chinese word of the token before.

    Only between two ideographs: a number or a Latin name in a word of the dictionary stays apart.

    Args:
        text: one line.
        offsets: `[tokens, 2]`, characters.

    Returns:
        `[tokens - 1]`, bool: for all tokens but the first.
    """
    is_ideograph = np.zeros(len(text), bool)
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
