"""Labels with probabilities, as another model gives them: `"label": {"yes": 0.7, "no": 0.3}`."""

import json
from collections.abc import Sequence

from core.base.errors import InputError

# By how much probabilities that were written with few digits may differ from 1.
ROUNDED = 0.001

Probabilities = tuple[tuple[str, float], ...]


def read_soft_labels(record: dict, several: bool) -> tuple[list[str], Probabilities]:
    """Return the likely labels of a record, and the probability of each label.

    The probabilities of "label" add up to 1; each of "labels" is between 0 and 1.

    Args:
        record: its "label", or its "labels", is an object: label -> probability.
        several: whether it has "labels".

    Raises:
        InputError: a value is no probability, or they don't add up to 1.
    """
    name = "labels" if several else "label"
    given = record[name]
    right = all(type(share) in (int, float) and 0 <= share <= 1 for share in given.values())
    total = sum(given.values()) if right else 0.0
    if not right or "" in given or not several and not total:
        raise InputError(
            f'"{name}" must give each label a probability from 0 to 1, not '
            f"{json.dumps(given, ensure_ascii=False)}."
        )
    if not several and abs(total - 1) > ROUNDED:
        raise InputError(
            f'the probabilities of "label" add up to {total:.4g}: divide each by that, or write '
            '"labels" where each may be true.'
        )
    probabilities = tuple((label, float(share)) for label, share in given.items() if share)
    if not several:
        probabilities = tuple((label, share / total) for label, share in probabilities)
    return likely_labels(probabilities, several), probabilities


def likely_labels(probabilities: Sequence[tuple[str, float]], several: bool) -> list[str]:
    """Return the label of the highest probability, or `several` labels of at least one half."""
    if several:
        return [label for label, share in probabilities if share >= 0.5]
    return [max(probabilities, key=lambda pair: pair[1])[0]]
