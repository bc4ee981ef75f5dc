"""Read the tensors of a `pytorch_model.bin` without torch, and without running its code.

Such a file is a pickle, which may call any Python function. This reader allows only tensors, their
storages and ordered dicts; they become the plain objects below.
"""

import collections
import math
import pickle
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from core.base.errors import InputError

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # begins files of torch before 1.6
BFLOAT16 = "bfloat16"  # missing in NumPy
TYPES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


class Refused(Exception):
    """An unexpected file; the message says what it contains."""


@dataclass(frozen=True)
class Storage:
    """A flat array of numbers that several tensors may share."""

    key: str
    kind: str
    count: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage that is not read yet."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, numbers: np.ndarray) -> np.ndarray:
        """Return the tensor as its own array.

        Raises:
            Refused: it exceeds its storage.
        """
        parts = (self.offset, *self.shape, *self.strides)
        whole = all(isinstance(part, int) and part >= 0 for part in parts)
        if not whole or math.prod(self.shape) > len(numbers):
            raise Refused("a tensor that is larger than its storage")
        if 0 in self.shape:
            return np.zeros(self.shape, numbers.dtype)
        steps = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        if self.offset + sum(steps) >= len(numbers):
            raise Refused("a tensor that ends behind its storage")
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides).copy()


def rebuild_tensor(storage: Storage, offset: int, shape: tuple, strides: tuple, *_: Any) -> Tensor:
    """Replace `torch._utils._rebuild_tensor_v2`; other arguments concern gradients."""
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def rebuild_parameter(tensor: Tensor, *_: Any) -> Tensor:
    """Replace `torch._utils._rebuild_parameter`."""
    return tensor


ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): tuple,
    **{("torch", name): kind for name, kind in TYPES.items()},
}


class Unpickler(pickle.Unpickler):
    """A pickle reader that supports only what is `ALLOWED`.

    Attributes:
        storages: of the pickle, by key.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise Refused(f"{module}.{name}, which is not a tensor")
        return ALLOWED[module, name]

    def persistent_load(self, identity: Any) -> Storage:
        match identity:
            case ("storage", str(kind), key, _, int(count), *_) if kind in TYPES.values():
                return self.storages.setdefault(str(key), Storage(str(key), kind, count))
        raise Refused(f"{str(identity)[:80]}, which is not a storage")


def read_torch_file(path: Path) -> dict[str, np.ndarray]:
    """Return name -> array of a file of `torch.save`; bfloat16 becomes float32.

    Raises:
        InputError: the file is damaged, has something else than tensors, or has none.
    """
    try:
        zipped = zipfile.is_zipfile(path)
        tensors = read_zipped(path) if zipped else read_legacy(path)
    except Refused as refused:
        raise InputError(
            f"{path} holds {refused}: it is not read, since such a file can run any program; "
            "get model.safetensors from where it came from."
        ) from None
    except InputError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise InputError(
            f"{path} is damaged, or not a file of torch ({type(error).__name__}): fetch it again."
        ) from error
    if not tensors:
        raise InputError(f"{path} holds no tensors by name: save the state_dict() of the model.")
    return tensors


def read_zipped(path: Path) -> dict[str, np.ndarray]:
    """Read the current format: a zip with one pickle and a file per storage."""
    with zipfile.ZipFile(path) as archive:
        [pickled] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        root = pickled.removesuffix("data.pkl")
        order: str = sys.byteorder
        if f"{root}byteorder" in archive.namelist():
            order = archive.read(f"{root}byteorder").decode()
        if order != "little":
            raise InputError(f"{path} was written on a big-endian machine: save it on another one.")
        with archive.open(pickled) as file:
            state = Unpickler(file).load()

        def read(storage: Storage) -> bytes:
            return archive.read(f"{root}data/{storage.key}")

        return collect(state, read)


def read_legacy(path: Path) -> dict[str, np.ndarray]:
    """Read the format before torch 1.6: pickles one after the other, then the storages."""
    with open(path, "rb") as file:
        if Unpickler(file).load() != LEGACY_MAGIC:
            raise Refused("something else than what torch saves")
        Unpickler(file).load()  # version of the protocol
        if not Unpickler(file).load().get("little_endian", True):
            raise InputError(f"{path} was written on a big-endian machine: save it on another one.")
        unpickler = Unpickler(file)
        state = unpickler.load()
        contents = {}
        for key in Unpickler(file).load():
            count = int.from_bytes(file.read(8), "little")
            contents[key] = file.read(count * item_size(unpickler.storages[key]))
        return collect(state, lambda storage: contents[storage.key])


def item_size(storage: Storage) -> int:
    """Return the bytes of each number."""
    return 2 if storage.kind == BFLOAT16 else np.dtype(storage.kind).itemsize


def named(state: Any) -> dict[str, Tensor]:
    """Return the tensors of an unpickled dict, or of its `state_dict` or `model`."""
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    found = state.items() if isinstance(state, dict) else ()
    return {name: value for name, value in found if isinstance(value, Tensor)}


def collect(state: Any, read: Callable[[Storage], bytes]) -> dict[str, np.ndarray]:
    """Return the arrays of the unpickled tensors; read each storage once."""
    tensors, numbers = named(state), {}
    for tensor in tensors.values():
        storage = tensor.storage
        if storage not in numbers:
            content = read(storage)
            if len(content) < storage.count * item_size(storage):
                raise Refused("a storage that is cut off")
            numbers[storage] = decode(content, storage.kind)
    return {name: tensor.view(numbers[tensor.storage]) for name, tensor in tensors.items()}


def decode(content: bytes, kind: str) -> np.ndarray:
    """Return the numbers of a storage; bfloat16 is the upper half of float32."""
    if kind == BFLOAT16:
        halves = np.frombuffer(content, np.uint16)
        return (halves.astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, kind)
