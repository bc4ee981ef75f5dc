"""Read the weights that a run has kept, and compare those of two runs."""

from pathlib import Path

import h5py
import numpy as np


def weights(folder: Path) -> dict[str, np.ndarray]:
    """Return name -> weight of `best.weights.h5` of a run."""
    found: dict[str, np.ndarray] = {}

    def note(name: str, own: h5py.HLObject) -> None:
        if isinstance(own, h5py.Dataset):
            found[name] = own[()]

    with h5py.File(folder / "best.weights.h5") as file:
        file.visititems(note)
    return found


def largest_difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Return the largest difference of two runs' weights; both have the same names."""
    assert one.keys() == other.keys() and one
    return max(np.abs(one[key] - other[key]).max() for key in one if one[key].dtype.kind == "f")
