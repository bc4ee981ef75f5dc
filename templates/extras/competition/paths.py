"""Other names of labels, and paths: a record with "a/b/c" has its parents "a/b" and "a" too."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.data.records import whole_number
from extras.competition.settings import Table


def name_labels(record: dict, table: Table) -> dict:
    """Return a record whose labels have the names of `label_aliases`, and all their parents.

    Raises:
        InputError: a part of a path is empty, or two probabilities are of one label.
    """
    for name in record.keys() & {"label", "labels"}:
        record = {**record, name: rename(record[name], table.aliases)}
    return name_parents(record, table.hierarchy) if table.hierarchy else record


def rename(given: Any, aliases: dict[str, str]) -> Any:
    """Return a label, a list of labels, or labels with probabilities, under their other names."""
    if isinstance(given, list):
        return [rename(label, aliases) for label in given]
    if not isinstance(given, dict):
        plain = whole_number(given)
        name = str(plain).lower() if isinstance(plain, bool) else str(plain)  # as JSON writes it
        return aliases.get(name, given) if isinstance(plain, str | int) else given
    names = [aliases.get(name, name) for name in given]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"two probabilities are of the label {twice!r}, as competition.label_aliases says: "
            "give each label one."
        )
    return dict(zip(names, given.values(), strict=True))


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
