"""BLEU of the counts of many records at once, and the tokens of ROUGE."""

import re
import unicodedata

import numpy as np

ORDERS = 4  # n-grams that BLEU counts
# Signs on letters, such as the vowels of Indic scripts, which the `re` of Python takes for no part
# of a word.
MARKS = "".join(c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.category(c)[0] == "M")


class WordsAndIdeographs:
    """Tokens of ROUGE: runs of letters and digits, and each ideograph by itself."""

    IDEOGRAPHS = r"\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    PATTERN = re.compile(
        rf"(?=\w)[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}_](?:[^\W{IDEOGRAPHS}_]|[{MARKS}])*"
    )

    def tokenize(self, text: str) -> list[str]:
        return self.PATTERN.findall(text.lower())


def bleu_score(
    *statistics: np.ndarray, axis: int = -1, effective_order: bool = False
) -> np.ndarray:
    """Return the BLEU of the sums over `axis`, as sacrebleu computes it, many at a time.

    `compare.py` needs that of thousands of samples of the records; sacrebleu computes one.
    bp (p1 p2 p3 p4)^(1/4); the k-th precision without a match counts as 1 / (2^k total).
    Source: Papineni et al. 2002, https://aclanthology.org/P02-1040; smoothing as in mteval-v13a.

    Args:
        *statistics: the ten columns of `RecordScore.statistics`, records along `axis`.
        axis: of the records.
        effective_order: leave out the orders that no prediction is long enough for; without this
            BLEU is 0 if no prediction has four tokens, also where all are right.
    """
    sums = [np.asarray(column).sum(axis).astype(float) for column in statistics]
    length, target_length = sums[:2]
    correct, total = np.stack(sums[2 : 2 + ORDERS]), np.stack(sums[2 + ORDERS :])
    missing = np.cumsum(correct == 0, axis=0)
    smoothed = np.where(correct == 0, 0.5**missing, correct)
    logarithms = np.where(total == 0, 0, np.log(smoothed / np.maximum(total, 1)))
    orders = (total > 0).sum(axis=0)
    ratio = target_length / np.maximum(length, 1)
    brevity = np.where(length > 0, np.exp(np.minimum(1 - ratio, 0)), 0.0)
    found = correct.any(axis=0) & (effective_order | (orders == ORDERS))
    mean = logarithms.sum(axis=0) / np.maximum(orders, 1)
    return 100 * np.where(found, brevity * np.exp(mean), 0.0)
