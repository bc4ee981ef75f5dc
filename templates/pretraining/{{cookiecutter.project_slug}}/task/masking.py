"""The five objectives: which tokens are hidden from the model, and which it predicts.

`masked`: whole words are drawn until `mask_rate` of the tokens is covered. Of these tokens
`mask_share` become [MASK], `random_share` another token, and the rest stay. Sources: Devlin et al.
2019, https://arxiv.org/abs/1810.04805, and its whole word masking.

`causal`: each token from those before it.

`unilm`: the text is split at random; each token of the second part from the first part and those
before it. Source: Dong et al. 2019, https://arxiv.org/abs/1905.03197.

`replaced`: words are drawn as for `masked` and become other tokens; the model tells for each token
whether it was replaced: see `extras/encoders/discriminator.py`.

`denoising`: a decoder writes the whole text from a damaged copy: see `task/denoising.py`.

All functions draw for many texts at once, with the random generator that they are given.
"""

import math

import numpy as np

from core.base.extras import need
from core.batches import Batch
from corpus.special_tokens import SpecialTokens
from corpus.texts import PaddedTexts
from task.denoising import damage_all
from task.settings import Settings

NO_TOKEN = -1  # where there is nothing to predict
# The arrays with a column for each token that is predicted.
SLOTTED = ("masked_positions", "masked_labels", "target_ids")


def count_slots(settings: Settings, length: int) -> int:
    """Return the number of slots for predicted tokens in a padded text of `length` tokens.

    The head scores the whole vocabulary, so it reads only these positions.

    Args:
        settings: `objective`, `mask_rate`.
        length: of the text.
    """
    if settings.objective == "masked":
        return math.ceil(settings.mask_rate * length)
    return length if settings.objective == "replaced" else length - 1


def lay_out(
    padded: PaddedTexts, settings: Settings, special: SpecialTokens, random: np.random.Generator
) -> Batch:
    """Return the inputs of the model for some texts.

    Args:
        padded: token ids and beginnings of words `[texts, length]`.
        settings: `objective`, and for `masked` `mask_rate`, `mask_share`, `random_share`; for
            `denoising` `mask_rate`, `span_length`, `permute_sentences`; for `replaced` `mask_rate`.
        special: tokens that never replace others, and are hidden by `denoising` only.
        random: draws words, tokens or splits.
    """
    rows, length = padded.token_ids.shape
    token_ids, segment_ids = padded.token_ids, np.zeros((rows, length), np.int32)
    slots = count_slots(settings, length)
    if settings.objective == "denoising":
        damaged, mask = damage_all(padded, settings, special, random)
        labels = np.where(padded.padding_mask[:, 1:] > 0, token_ids[:, 1:], NO_TOKEN)
        return {
            "token_ids": damaged,
            "padding_mask": mask,
            # [CLS] begins the target too.
            "target_ids": token_ids[:, :slots],
            "masked_labels": labels.astype(np.int32),
        }
    if settings.objective in ("masked", "replaced"):
        hidden = draw_words(padded, special, settings.mask_rate, random)
        if settings.objective == "replaced":
            replaced = need("encoders", "discriminator")
            return replaced.lay_out(padded, hidden, settings, special, random)
        token_ids = replace_tokens(token_ids, hidden, settings, special, random)
        positions, labels = collect(padded.token_ids, hidden, slots)
    else:
        # The first token, [CLS], is given; each other token is a label if it is predicted.
        first = np.zeros((rows, 1), int)
        if settings.objective == "unilm":
            first = draw_splits(padded.padding_mask, random)[:, None]
            after = np.arange(length) > first
            segment_ids = (after & (padded.padding_mask > 0)).astype(np.int32)
        positions = np.broadcast_to(np.arange(slots, dtype=np.int32), (rows, slots))
        predicted = (positions >= first) & (padded.padding_mask[:, 1:] > 0)
        labels = np.where(predicted, token_ids[:, 1:], NO_TOKEN).astype(np.int32)
    return {
        "token_ids": token_ids,
        "segment_ids": segment_ids,
        "padding_mask": padded.padding_mask,
        "masked_positions": positions,
        "masked_labels": labels,
    }


def shorten(batch: Batch, settings: Settings, length: int) -> Batch:
    """Return a layout with its texts padded to fewer tokens.

    Args:
        batch: from `lay_out`.
        settings: the same.
        length: no text has more tokens.
    """
    slots = count_slots(settings, length)
    return {name: array[:, : slots if name in SLOTTED else length] for name, array in batch.items()}


def draw_words(
    padded: PaddedTexts, special: SpecialTokens, rate: float, random: np.random.Generator
) -> np.ndarray:
    """Return which tokens are hidden, bool `[examples, length]`: only whole words.

    The budget is `rate` of the tokens that may be hidden. Words are drawn in random order, and each
    is taken if it fits into the rest of the budget. A budget of 2.7 tokens is 3 in seven of ten
    cases and otherwise 2, so short texts lose the same share as long ones.

    Worked example: a row with words of 1, 3 and 1 tokens and a budget of 2. In the order 3rd, 2nd,
    1st the third word is taken (1 left), the second does not fit, the first is taken (0 left).
    """
    rows, length = padded.token_ids.shape
    may_hide = (padded.padding_mask > 0) & ~special.is_special[padded.token_ids]
    share = rate * may_hide.sum(axis=1)
    budget = np.floor(share + random.random(rows)).astype(int)

    # The number of the word of each token; then how many of its tokens each word may hide.
    word = np.maximum(np.cumsum(padded.word_starts, axis=1) - 1, 0)
    flat = word + length * np.arange(rows)[:, None]
    sizes = np.bincount(flat[may_hide], minlength=rows * length).reshape(rows, length)
    # Words in random order; numbers without a word come last.
    order = np.argsort(np.where(sizes > 0, random.random((rows, length)), 2.0), axis=1)
    ordered = np.take_along_axis(sizes, order, axis=1)
    taken, left = np.zeros((rows, length), bool), budget
    for rank in range(length):
        size = ordered[:, rank]
        if not (left * size).any():  # no row has both budget and words left
            break
        take = (size > 0) & (size <= left)
        left = left - take * size
        taken[np.arange(rows), order[:, rank]] = take
    return np.take_along_axis(taken, word, axis=1) & may_hide


def replace_tokens(
    token_ids: np.ndarray,
    hidden: np.ndarray,
    settings: Settings,
    special: SpecialTokens,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the tokens `[examples, length]` with most of the hidden ones replaced.

    Each token is drawn for itself: the tokens of a word may differ in what they become.
    """
    draw = random.random(token_ids.shape)
    others = random.choice(special.ordinary, token_ids.shape)
    masked = hidden & (draw < settings.mask_share)
    changed = hidden & ~masked & (draw < settings.mask_share + settings.random_share)
    return np.where(masked, special.mask, np.where(changed, others, token_ids)).astype(np.int32)


def collect(token_ids: np.ndarray, hidden: np.ndarray, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the hidden tokens and the tokens, both `[examples, slots]`."""
    positions = np.argsort(~hidden, axis=1, kind="stable")[:, :slots].astype(np.int32)
    used = np.take_along_axis(hidden, positions, axis=1)
    labels = np.where(used, np.take_along_axis(token_ids, positions, axis=1), NO_TOKEN)
    return np.where(used, positions, 0), labels.astype(np.int32)


def draw_splits(padding_mask: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the last position `[examples]` of the part that sees itself in both directions.

    The part is at least [CLS], and at most all but the last token.
    """
    lengths = padding_mask.sum(axis=1)
    return np.floor(random.random(len(lengths)) * np.maximum(lengths - 1, 1)).astype(int)
