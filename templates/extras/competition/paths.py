"""Labels that are paths, such as "a/b/c": a record with one has its parents "a/b" and "a" too."""

from collections.abc import Iterable, Sequence

import numpy as np

from core.base.errors import InputError


def name_parents(record: dict, separator: str) -> dict:
    """Return a record whose label became several: the path and all its parents.

    Raises:
        InputError: a part of a path is empty.
    """
    given = record.get("labels", [record["label"]] if "label" in record else None)
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        return record  # the task says what is wrong with it
    rest = {name: value for name, value in record.items() if name != "label"}
    return {**rest, "labels": [*with_parents(given, separator)]}


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
    """Return probabilities `[records, labels]`, none above its parent's.

    So the parents of a label above a threshold are above it too, and are always predicted with it.

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
