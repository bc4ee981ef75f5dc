"""The weights of an encoder by Hugging Face's names, from any file."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from safetensors import SafetensorError, safe_open

from core.base.errors import InputError, gist
from core.base.files import read_json

SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
# Unused by encoders: stored position ids, and the weights of heads.
COUNTED = re.compile(r"(position_ids|embed_positions\.weight|attention\.self\.distance_embedding)$")


class Weights:
    """Named tensors that record their use.

    Args:
        path: their file, for messages.
        tensors: name -> array.
    """

    def __init__(self, path: Path, tensors: dict[str, np.ndarray]) -> None:
        self.path = path
        self.tensors = tensors
        self.used: set[str] = set()
        self.missing: list[str] = []

    def rename(self, *changes: tuple[str, str]) -> None:
        """Replace parts of all names, by pairs of regular expression and replacement."""
        for pattern, name in changes:
            self.tensors = {re.sub(pattern, name, key): a for key, a in self.tensors.items()}

    def strip_prefix(self, landmark: str) -> None:
        """Strip the names up to `landmark`, because a model with a head has a prefix."""
        found = [name for name in self.tensors if name.endswith(landmark)]
        if landmark not in found and found:
            prefix = min(found, key=len).removesuffix(landmark)
            self.rename((f"^{re.escape(prefix)}", ""))

    def take(self, name: str) -> np.ndarray:
        """Return a tensor; a missing one is recorded and replaced by an empty one."""
        self.used.add(name)
        if name not in self.tensors:
            self.missing.append(name)
            return np.zeros(0, np.float32)
        return self.tensors[name]

    def change(self, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Apply a function to a tensor, if it exists."""
        if name in self.tensors and not self.missing:
            self.tensors[name] = change(self.tensors[name])

    def assign(self, variable: keras.Variable, name: str) -> None:
        """Assign a variable; the value of a Linear layer is transposed."""
        value = self.take(name)
        is_kernel = "kernel" in variable.name
        self.put(variable, value.T if is_kernel else value, name)

    def put(self, variable: keras.Variable, value: np.ndarray, name: str) -> None:
        """Assign a value that was made from a tensor.

        Raises:
            InputError: a different number of values, or one that is not finite.
        """
        if name in self.missing:
            return
        # Attention heads have their own axis here; the other axis is unchanged.
        ends = value.shape[0] == variable.shape[0] or value.shape[-1] == variable.shape[-1]
        if value.size != np.prod(variable.shape) or value.ndim > 1 and not ends:
            raise InputError(
                f"{self.path}: {name} has the shape {list(value.shape)}, but config.json asks for "
                f"{list(variable.shape)}: take both from the same model."
            )
        if not np.isfinite(value).all():
            raise InputError(
                f"{self.path}: {name} holds numbers that are not finite: fetch the file again, or "
                "take an earlier checkpoint of its training."
            )
        variable.assign(value.reshape(variable.shape))

    def finish(self) -> None:
        """Print unused tensors by the first parts of their names.

        Raises:
            InputError: tensors are missing.
        """
        if self.missing:
            raise InputError(
                f"{self.path} lacks {shorten(self.missing)}: it is not of the model that its "
                "config.json describes, or not whole; fetch both again."
            )
        unread = [name for name in self.tensors if name not in self.used]
        unread = [name for name in unread if not COUNTED.search(name)]
        if unread:
            print(f"note: {self.path}: not used by the encoder: {shorten(unread)}")


def shorten(names: Iterable[str]) -> str:
    """Return a short list of names; those of one layer or head are counted."""
    groups: dict[str, list[str]] = {}
    for name in names:
        found = re.match(r".*?\.\d+\.|[^.]+\.", name)
        groups.setdefault(found[0] if found else name, []).append(name)
    parts = [
        members[0] if len(members) == 1 else f"{group}* ({len(members)} tensors)"
        for group, members in groups.items()
    ]
    return ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")


def renamed(weights: Weights) -> Weights:
    """Return weights with today's names of normalizations."""
    weights.rename(
        (r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")
    )
    return weights


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Return name -> array of a safetensors file; bfloat16 becomes float32."""
    try:
        with safe_open(path, framework="tf") as file:
            return {name: as_array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} can't be read ({gist(error)}): fetch it again.") from error


def as_array(tensor: Any) -> np.ndarray:
    """Return a tensor as a NumPy array."""
    return (tf.cast(tensor, "float32") if tensor.dtype == tf.bfloat16 else tensor).numpy()


def read_parts(index: Path, read: Callable[[Path], dict]) -> dict[str, np.ndarray]:
    """Return name -> array of weights in several files with an index."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{index} names no parts: fetch it again.")
    parts: dict[str, np.ndarray] = {}
    for name in sorted({str(place) for place in places.values()}):
        path = index.parent / name
        if path.parent != index.parent or not path.is_file():
            raise InputError(f"{index} names {name}, which is not there: fetch it too.")
        parts |= read(path)
    return {name: parts[name] for name in places if name in parts}
