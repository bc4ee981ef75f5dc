"""The model's outputs for the records of a file."""

from collections.abc import Sequence

import numpy as np

from core.base.errors import InputError
from core.data.records import Id
from task.records import Example, Labels

# Id of a record -> its probabilities `[labels]`, or its numbers, in the order of `Labels.names`.
Candidates = dict[Id, np.ndarray]
# Significant digits of probabilities, so that scores from memory and from a file agree.
DIGITS = 7


def make_candidates(
    examples: Sequence[Example], probabilities: np.ndarray, labels: Labels
) -> Candidates:
    """Return record id -> its row of `[examples, labels]`, rounded as in prediction files.

    Raises:
        InputError: a number is not finite.
    """
    broken = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if len(broken):
        raise InputError(
            f"the prediction for record {examples[broken[0]].id!r} is not finite: predict with "
            "devices.precision = float32 in the config.toml of this project, or train again."
        )
    # Unchanged, except for labels that are paths, such as a/b (extras/competition).
    rows = labels.consistent(probabilities).tolist()
    rounded = [[float(f"{value:.{DIGITS}g}") for value in row] for row in rows]
    return {example.id: np.array(row) for example, row in zip(examples, rounded, strict=True)}
