"""Weights in float16: half of the bytes. Keras casts them to the model's precision as it loads."""

from pathlib import Path

import h5py
import numpy as np

LARGEST = np.finfo(np.float16).max  # 65504


def write_float16(source: Path, target: Path) -> int:
    """Copy a file of weights with its float32 arrays as float16.

    Returns:
        Number of arrays with a value that float16 can't hold: they stay float32.
    """
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        return copy_group(old, new)


def copy_group(old: h5py.Group, new: h5py.Group) -> int:
    """Copy a group of HDF5 with all that it holds; return the number of arrays that stay."""
    new.attrs.update(old.attrs)
    stay = 0
    for name, item in old.items():
        if isinstance(item, h5py.Group):
            stay += copy_group(item, new.create_group(name))
            continue
        values = item[()]
        if values.dtype == np.float32:
            fits = bool(np.all(np.abs(values) <= LARGEST))
            values, stay = (values.astype(np.float16), stay) if fits else (values, stay + 1)
        new.create_dataset(name, data=values).attrs.update(item.attrs)
    return stay
