"""Texts with weights, as another model gives them: `"targets": {"one": 0.7, "another": 0.3}`."""

import json
import math
from collections.abc import Sequence
from typing import Any

from core.base.errors import InputError

MOST = 1e30  # a loss is a float32


def read_weighted_texts(given: dict[str, Any]) -> tuple[list[str], tuple[float, ...]]:
    """Return the texts of a record, best first, and the weight of each in the loss.

    A text of weight 0 is left out.

    Raises:
        InputError: a weight is not a number from 0 on, or no text has any.
    """
    right = all(type(share) in (int, float) and 0 <= share <= MOST for share in given.values())
    if not right or not any(given.values()):
        raise InputError(
            '"targets" must give each text a weight from 0 on, and one text more than 0, not '
            f"{json.dumps(given, ensure_ascii=False)[:200]}."
        )
    ranked = sorted(given.items(), key=lambda pair: -pair[1])
    kept = [(text, float(share)) for text, share in ranked if share]
    return [text for text, _ in kept], tuple(share for _, share in kept)


def weigh_texts(texts: Sequence[tuple[str, float]], temperature: float) -> dict[str, float]:
    """Return the weights of n-best texts: a softmax of their scores, divided by a temperature.

    Source: Kim and Rush 2016, https://arxiv.org/abs/1606.07947.

    Args:
        texts: with scores, which are logarithms of probabilities.
        temperature: above 1: weights that are more alike.

    >>> weigh_texts([("one", 0.0), ("two", -1.0986)], 1.0)
    {'one': 0.75, 'two': 0.25}
    """
    best = max(score for _, score in texts)
    powers: dict[str, float] = {}
    for text, score in texts:
        if text.strip():  # nothing can be learned from an empty one
            powers[text] = powers.get(text, 0.0) + math.exp((score - best) / temperature)
    total = sum(powers.values())
    rounded = {text: round(power / total, 4) for text, power in powers.items()}
    return {text: share for text, share in rounded.items() if share}
