"""Read the tensors of a `pytorch_model.bin` without torch, and run nothing that stands in it.

Such a file is a pickle, which may name any function of Python with its arguments. Here it may name
tensors, their storages and ordered dicts alone; these become the plain objects below.
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

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # what files of torch before 1.6 begin with
BFLOAT16 = "bfloat16"  # NumPy has no such type
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
    """A file that is not what it should be; the message says what it holds."""


@dataclass(frozen=True)
class Storage:
    """Numbers in a row, which several tensors may share."""

    key: str
    kind: str
    count: int


@dataclass(frozen=True)
class Tensor:
    """A view of a storage, which has not been read yet."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, numbers: np.ndarray) -> np.ndarray:
        """Return the tensor as an array of its own.

        Raises:
            Refused: it reaches over the ends of its storage.
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
    """Stand for `torch._utils._rebuild_tensor_v2`: the rest is about gradients."""
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def rebuild_parameter(tensor: Tensor, *_: Any) -> Tensor:
    """Stand for `torch._utils._rebuild_parameter`."""
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
    """A pickle's reader that knows what is `ALLOWED`, and nothing else.

    Attributes:
        storages: those that the pickle names, by key.
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
    """Return name -> array of a file that `torch.save` wrote; bfloat16 becomes float32.

    Raises:
        InputError: the file is damaged, names something that is not a tensor, or has none.
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
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to mean
        raise InputError(
            f"{path} is damaged, or not a file of torch ({type(error).__name__}): fetch it again."
        ) from error
    if not tensors:
        raise InputError(f"{path} holds no tensors by name: save the state_dict() of the model.")
    return tensors


def read_zipped(path: Path) -> dict[str, np.ndarray]:
    """Read the format of today: a zip with one pickle, and a file for each storage."""
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
        Unpickler(file).load()  # the version of the protocol
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
    """Return the tensors of what was pickled: a dict, or one under `state_dict` or `model`."""
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    found = state.items() if isinstance(state, dict) else ()
    return {name: value for name, value in found if isinstance(value, Tensor)}


def collect(state: Any, read: Callable[[Storage], bytes]) -> dict[str, np.ndarray]:
    """Return the arrays of what was pickled; each storage is read once."""
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
    """Return the numbers of a storage; those of bfloat16 are the upper half of float32."""
    if kind == BFLOAT16:
        halves = np.frombuffer(content, np.uint16)
        return (halves.astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, kind)
