"""Labels that are paths, such as "a/b/c": who has one has its parents "a/b" and "a" too."""

from collections.abc import Iterable, Sequence

import numpy as np

from core.base.errors import InputError


def with_parents(labels: Iterable[str], separator: str) -> tuple[str, ...]:
    """Return labels and all their parents, each once.

    Raises:
        InputError: a part of a path is empty.
    """
    found: dict[str, None] = {}
    for label in labels:
        parts = label.split(separator)
        if not all(part.strip() for part in parts):
            raise InputError(
                f"the label {label!r} has an empty part between {separator!r}: name it."
            )
        found |= dict.fromkeys(separator.join(parts[:end]) for end in range(1, len(parts) + 1))
    return tuple(found)


def consistent(probabilities: np.ndarray, names: Sequence[str], separator: str) -> np.ndarray:
    """Return probabilities `[records, labels]`, none above that of its parent.

    What exceeds a threshold has parents that do, then: a label is never predicted without them.

    Args:
        probabilities: `[records, labels]`.
        names: of the labels, sorted.
        separator: between the parts of a path.
    """
    number = {name: index for index, name in enumerate(names)}
    capped = probabilities.copy()
    for name in sorted(names, key=lambda own: own.count(separator)):
        parent = number.get(name.rpartition(separator)[0])
        if parent is not None:
            capped[:, number[name]] = np.minimum(capped[:, number[name]], capped[:, parent])
    return capped
