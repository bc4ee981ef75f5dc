"""Numbers as targets: how they are read, scaled for the loss, and scaled back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.data.records import read_field
from extras.competition.number_cells import is_finite, shorten
from extras.competition.settings import Settings
from extras.competition.tables import number_fields

DEFAULT_NAME = "target"
MOST_LEVELS = 100
MOST_STRATA = 10


def read_targets(record: dict, settings: Settings, require: bool) -> dict[str, float]:
    """Return name -> number of a record; empty: its numbers are unknown.

    Args:
        record: of JSON Lines, with each target under its name; that of a table has `targets`.
        settings: `competition.target_columns` names them; if empty, they are those of the sample,
            or `target` is the only one.
        require: whether they must be there.

    Raises:
        InputError: a target is absent, not a number, or not finite.
    """
    if "targets" in record:
        return record["targets"]
    names = number_fields(settings.competition)
    own = settings.competition.target_names
    if not names or not own and not any(name in record for name in names):
        names = (DEFAULT_NAME,)
    if not require and not all(name in record for name in names):
        return {}
    targets = {name: read_field(record, name, object) for name in names}
    for name, value in targets.items():
        if type(value) not in (int, float):
            raise InputError(f'"{name}" must be a number, not {shorten(value)}.')
        if not is_finite(value):
            raise InputError(f'"{name}" is {shorten(value)}: a target must be a finite number.')
    return {name: float(value) for name, value in targets.items()}


def gold_numbers(examples: Sequence[Any]) -> np.ndarray:
    """Return the targets `[examples, targets]`.

    Raises:
        InputError: two records have numbers under other names.
    """
    for example in examples:
        if example.labels != examples[0].labels:
            raise InputError(
                f"line {example.line} has the numbers {', '.join(example.labels)}, and line "
                f"{examples[0].line} has {', '.join(examples[0].labels)}: name them alike."
            )
    return np.array([example.numbers for example in examples], np.float64)


def collect_numbers(examples: Sequence[Any], settings: Settings) -> dict[str, Any]:
    """Return what the training file says of its numbers, as the fields of `NumberTargets`.

    `scaling` holds the mean, deviation, lowest and highest value of each target and, for grades,
    all its levels with the share of records above each but the last.

    Args:
        examples: of the training file.
        settings: `competition.loss`.

    Raises:
        InputError: the loss does not fit the numbers, or the numbers never vary.
    """
    loss, numbers = settings.competition.loss, gold_numbers(examples)
    names = tuple(examples[0].labels)
    if not np.ptp(numbers, axis=0).any():
        raise InputError(
            f"every training example has {names[0]} = {numbers[0, 0]:g}: there is nothing to learn."
        )
    if loss == "bce" and not ((numbers >= 0) & (numbers <= 1)).all():
        row, column = np.argwhere((numbers < 0) | (numbers > 1))[0]
        raise InputError(
            f'loss = "bce" is for targets from 0 to 1, but line {examples[row].line} of the '
            f"training file has {names[column]} = {numbers[row, column]:g}: take mse, or scale it."
        )
    levels = [np.unique(column).tolist() for column in numbers.T] if loss == "ordinal" else []
    for name, own in zip(names, levels, strict=False):
        if len(own) > MOST_LEVELS:
            raise InputError(
                f'loss = "ordinal" is for grades, but {name} has {len(own)} different values: take '
                '"mse" or "huber".'
            )
    deviations = numbers.std(axis=0)
    scaling = {
        "loss": loss,
        "huber_delta": settings.competition.huber_delta,
        "means": numbers.mean(axis=0).tolist(),
        "deviations": np.where(deviations > 0, deviations, 1).tolist(),
        "lowest": numbers.min(axis=0).tolist(),
        "highest": numbers.max(axis=0).tolist(),
        "levels": levels,
        "shares_above": [
            [float((column > level).mean()) for level in own[:-1]]
            for column, own in zip(numbers.T, levels, strict=False)
        ],
    }
    return {
        "names": names,
        "several": False,
        "positive": None,
        "counts": (len(examples),) * len(names),
        "records": len(examples),
        "pairs": any(example.text_b is not None for example in examples),
        "scaling": scaling,
    }


def scaled_targets(examples: Sequence[Any], scaling: dict) -> np.ndarray:
    """Return what the loss compares with the logits, `[examples, logits]`.

    These are deviations from the mean for mse and huber, the numbers themselves for bce and for
    lists, and for grades 0 or 1 for each level but the last: whether the number is above it.
    """
    numbers = gold_numbers(examples)
    if scaling["loss"] in ("bce", "listwise"):
        return numbers.astype(np.float32)
    if scaling["loss"] == "ordinal":
        steps = [
            column[:, None] > np.array(levels[:-1])[None]
            for column, levels in zip(numbers.T, scaling["levels"], strict=True)
        ]
        return np.concatenate(steps, axis=1).astype(np.float32)
    return ((numbers - scaling["means"]) / scaling["deviations"]).astype(np.float32)


def strata(examples: Sequence[Any]) -> list[int]:
    """Return the tenth of the first target that each example is in; folds get a share of each."""
    first = gold_numbers(examples)[:, 0]
    edges = np.unique(np.quantile(first, np.linspace(0, 1, MOST_STRATA + 1)[1:-1]))
    return np.searchsorted(edges, first).tolist()
