"""Damaged copies of texts, which a writer restores: shuffled sentences, hidden spans.

Each hidden span of tokens becomes one [MASK], so the writer also learns how many tokens it hides.
All other tokens are copied: the decoder learns to find its next word in the source, as it must for
titles and descriptions of data. Sources: Lewis et al. 2019, https://arxiv.org/abs/1910.13461; for
the lengths of spans Raffel et al. 2020, https://arxiv.org/abs/1910.10683.
"""

import numpy as np

from corpus.special_tokens import SpecialTokens
from corpus.texts import PaddedTexts
from task.settings import Settings


def damage_all(
    padded: PaddedTexts, settings: Settings, special: SpecialTokens, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return damaged copies of texts and their padding masks, both int32 `[texts, length]`.

    The damage of a text does not depend on its padding.

    Args:
        padded: the texts with special tokens at both ends, which stay.
        settings: `mask_rate`, `span_length`, `permute_sentences`.
        special: tokens that are not text.
        random: draws orders and spans.
    """
    token_ids = np.full_like(padded.token_ids, special.pad)
    sizes = padded.padding_mask.sum(axis=1)
    for number, (ids, size) in enumerate(zip(padded.token_ids, sizes, strict=True)):
        damaged = damage(ids[1 : size - 1], settings, special, random)
        sizes[number] = len(damaged) + 2
        token_ids[number, : sizes[number]] = [special.begin, *damaged, special.end]
    mask = np.arange(token_ids.shape[1]) < sizes[:, None]
    return token_ids, mask.astype(np.int32)


def damage(
    token_ids: np.ndarray, settings: Settings, special: SpecialTokens, random: np.random.Generator
) -> np.ndarray:
    """Return a damaged copy of the tokens of a text; it is not longer."""
    if settings.permute_sentences:
        ends = np.flatnonzero(np.isin(token_ids[:-1], special.sentence_ends)) + 1
        sentences = np.split(token_ids, ends)
        token_ids = np.concatenate([sentences[n] for n in random.permutation(len(sentences))])
    hidden = draw_spans(len(token_ids), settings.mask_rate, settings.span_length, random)
    first = np.diff(hidden.astype(int), prepend=0) > 0  # of each span
    return np.where(first, special.mask, token_ids)[first | ~hidden]


def draw_spans(
    length: int, rate: float, span_length: float, random: np.random.Generator
) -> np.ndarray:
    """Return which tokens are hidden, bool `[length]`.

    A budget of 2.7 tokens is 3 in seven of ten cases and otherwise 2. Spans and the gaps between
    them form a ring that is rotated at random, so each place is equally likely.

    Worked example: length 10, rate 0.4 and span length 2 hide 4 tokens in 2 spans, say of 3 and 1,
    with gaps of 2 and 4: XXX..X...., rotated by 8: X..X....XX. One span may be at both ends.
    """
    budget = min(int(rate * length + random.random()), length)
    spans = min(max(round(budget / span_length), 1), budget, length - budget)
    if not spans:
        return np.full(length, budget > 0)
    hidden, between = (share_out(total, spans, random) for total in (budget, length - budget))
    counts = np.stack([hidden, between], axis=1).ravel()
    ring = np.repeat(np.arange(2 * spans) % 2 == 0, counts)
    return np.roll(ring, random.integers(length))


def share_out(total: int, parts: int, random: np.random.Generator) -> np.ndarray:
    """Return positive integers `[parts]` with a given sum; all combinations are equally likely."""
    ends = np.sort(random.choice(total - 1, parts - 1, replace=False))
    return np.diff(ends, prepend=-1, append=total - 1)
