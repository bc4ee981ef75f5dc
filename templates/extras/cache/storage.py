"""Files of rows: each is written whole or not at all, and each row is checked when it is read.

A row is any value of Python that `pack` can write, arrays among it. A file holds some thousand:

    rows        each as its checksum, 4 bytes, and itself
    places      where each row begins, and where the last one ends: `[rows + 1]`, 8 bytes each
    numbers     whole numbers of each row, which are read all at once: `[rows, k]`, 8 bytes each
    facts       about the rows together, as JSON
    footer      the sizes of these parts, and the checksum of all but the rows

Rows and their places are read one by one, and not mapped into memory: a training asks for them in
random order, what is mapped counts as memory of the process, and a file that is cut off kills a
process that maps it. So no byte of a row is in memory until it is asked for.
"""

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import marshal
import os
import re
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from pydantic import BaseModel
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import hooks_of, present
from core.base.files import PROJECT, TEMPORARY
from core.base.settings import CoreSettings, RecordSettings

MAGIC = b"rows-1\r\n"
FOOTER = struct.Struct("<8sQQQI")  # magic, rows, numbers a row, bytes of facts, checksum
CHECKSUM = struct.Struct("<I")
MARSHAL = 2  # equal values give equal bytes; later versions also look at reference counts
ROWS_KEPT = 512  # in memory, for a batch asks for each of its rows several times
ROWS_AT_ONCE = 64  # read by one call where they are wanted in order
ARRAY, CLASS, TUPLE, LIST, DICT = range(5)
SMALLER = {"<i4": "<i2", "<f4": "<i1"}  # of tokens and offsets, and of labels as 0 and 1
# Tables of extras that a reading, or an encoding, may read; they are in the key of what is kept.
TABLES = ("competition", "writers")
IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) )?import (\([^)]*\)|[^\n]+)", re.M)
DOOR = re.compile(r"\b(ask|need)\(\s*\"(\w+)\"(?:,\s*\"(\w+)\")?")
PLAIN = frozenset((str, int, float, bool, bytes, type(None)))


class Damaged(Exception):
    """A file, or a row of it, is not as it was written."""


# ------------------------------------------------------------------------------ a row


def pack(values: Sequence) -> list[bytes]:
    """Return the bytes of values: numbers, strings, arrays, and what is made of them.

    Values that are alike, as rows are, take a fraction of the time together.

    Raises:
        TypeError: something else is in it.
    """
    return [marshal.dumps(value, MARSHAL) for value in simplify(values)]


def simplify(values: Sequence) -> Sequence:
    """Return values made of Python's own types; what is not plain is a tuple with its kind."""
    kinds = {*map(type, values)}
    if kinds <= PLAIN:
        return values
    kind = kinds.pop()
    if kinds or kind is np.ndarray and len({value.dtype for value in values}) > 1:
        return [simplify([value])[0] for value in values]
    if kind is np.ndarray and not values[0].dtype.hasobject:
        return simplify_arrays(values)
    if is_dataclass(kind):
        names = names_of(kind)
        parts = together([[getattr(value, name) for name in names] for value in values])
        return [(CLASS, kind.__name__, own) for own in parts]
    if kind is tuple or kind is list:
        return [(TUPLE if kind is tuple else LIST, own) for own in together(values)]
    if issubclass(kind, dict):
        keys = together([list(value) for value in values])
        parts = together([list(value.values()) for value in values])
        return [(DICT, [*zip(*own, strict=True)]) for own in zip(keys, parts, strict=True)]
    raise TypeError(f"{kind.__name__} can't be kept in a file of rows")


def together(rows: Sequence[Sequence]) -> list[list]:
    """Return lists whose entries are simplified, those of one place together."""
    if len({*map(len, rows)}) > 1:
        return [list(simplify(row)) if row else [] for row in rows]
    columns = [simplify(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in rows]


def simplify_arrays(values: Sequence[np.ndarray]) -> list[tuple]:
    """Return arrays of one type as their types, shapes and bytes."""
    stored = smallest(np.concatenate([value.ravel() for value in values]))
    data, size = stored.tobytes(), stored.itemsize
    ends = itertools.accumulate((size * value.size for value in values), initial=0)
    kinds = ARRAY, values[0].dtype.str, stored.dtype.str
    pieces = zip(values, itertools.pairwise(ends), strict=True)
    return [(*kinds, value.shape, data[first:end]) for value, (first, end) in pieces]


def smallest(value: np.ndarray) -> np.ndarray:
    """Return an array in fewer bytes, mostly a part of them, if it holds the same."""
    if value.dtype.str not in SMALLER:
        return value
    if value.dtype.kind == "i":
        small = value.astype(SMALLER[value.dtype.str])
        return small if (small == value).all() else value
    with np.errstate(invalid="ignore"):
        small = value.astype(SMALLER[value.dtype.str])
    # By their bytes: -0.0 equals 0, which it becomes.
    return small if small.astype(value.dtype).tobytes() == value.tobytes() else value


@functools.cache
def names_of(kind: type) -> list[str]:
    """Return the names of the fields of a dataclass."""
    return [field.name for field in fields(kind)]


def unpack(data: bytes, classes: dict[str, type]) -> Any:
    """Return the value of some bytes; `classes` are the dataclasses in it, by their names."""
    return restore(marshal.loads(data), classes)


def restore(value: Any, classes: dict[str, type]) -> Any:
    """Undo `simplify`."""
    if not isinstance(value, tuple):
        return value
    if value[0] == ARRAY:
        _, kind, stored, shape, data = value
        return np.frombuffer(data, stored).astype(kind).reshape(shape)
    if value[0] == CLASS:
        return classes[value[1]](*(restore(part, classes) for part in value[2]))
    if value[0] == DICT:
        return {restore(key, classes): restore(part, classes) for key, part in value[1]}
    parts = [restore(part, classes) for part in value[1]]
    return tuple(parts) if value[0] == TUPLE else parts


def classes_of(value: Any) -> dict[str, type]:
    """Return the dataclasses in a value, by their names."""
    found: dict[str, type] = {}
    if is_dataclass(value) and not isinstance(value, type):
        found[type(value).__name__] = type(value)
        value = [getattr(value, field.name) for field in fields(value)]
    for part in value.values() if isinstance(value, dict) else value or ():
        if type(part) not in PLAIN and not isinstance(part, np.ndarray):
            found |= classes_of(part)
    return found


# ----------------------------------------------------------------------------- a file


class Handle:
    """An open file, which is closed when it is no longer needed."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)

    def read(self, size: int, place: int) -> bytes:
        """Return bytes of the file; several threads may do so at once."""
        if hasattr(os, "pread"):
            return os.pread(self.number, size, place)
        with _seeking:  # on Windows
            os.lseek(self.number, place, os.SEEK_SET)
            return os.read(self.number, size)


_seeking = threading.Lock()


@dataclass(frozen=True)
class Part:
    """A file of rows that is open.

    Attributes:
        path: that it had when it was opened.
        rows: how many it has; they end where `table` begins, which says where each of them is.
        width: how many numbers a row has.
        facts: about the rows together.
    """

    handle: Handle
    path: Path
    rows: int
    table: int
    width: int
    facts: dict

    def __len__(self) -> int:
        return self.rows

    def numbers(self) -> np.ndarray:
        """Return the numbers of each row `[rows, k]`; raises as `open_part`."""
        end = read_end(self.handle, self.path)[-1]
        count = self.rows * self.width
        numbers = np.frombuffer(end, "<i8", count, 8 * (self.rows + 1))
        return narrow(numbers).reshape(self.rows, self.width)

    def places(self, first: int, last: int) -> list[int]:
        """Return where some neighbouring rows begin, and where the last one ends.

        Empty: the file is damaged here.
        """
        count = last - first + 1
        found = self.handle.read(8 * count, self.table + 8 * first)
        places = [*struct.unpack(f"<{count}Q", found.ljust(8 * count, b"\0"))]
        sound = places == sorted(places) and places[-1] <= self.table
        return places if sound else []

    def rows_between(self, first: int, last: int) -> Iterator[bytes | None]:
        """Yield some neighbouring rows; None for one that is damaged."""
        places = self.places(first, last)
        if not places:
            yield from [None] * (last - first)
            return
        read = self.handle.read(places[-1] - places[0], places[0])
        for place, end in itertools.pairwise(places):
            row = read[place - places[0] : end - places[0]]
            checksum, data = row[: CHECKSUM.size], row[CHECKSUM.size :]
            whole = len(row) == end - place and CHECKSUM.pack(zlib.crc32(data)) == checksum
            yield data if whole else None


def write_part(
    path: Path,
    width: int,
    rows: Iterable[tuple[bytes, Sequence[int]]],
    facts: Callable[[], dict] = dict,
) -> None:
    """Write a file of rows, whole or not at all.

    Args:
        path: the file; its folder is there.
        width: how many numbers a row has.
        rows: each with its numbers.
        facts: asked for when the last row is written.
    """
    places, numbers = [0], []
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for data, own in rows:
                write(file, CHECKSUM.pack(zlib.crc32(data)) + data)
                places.append(places[-1] + CHECKSUM.size + len(data))
                numbers.append(own)
            table = np.array(numbers, "<i8").reshape(len(numbers), width)
            known = json.dumps(facts()).encode()
            end = np.array(places, "<u8").tobytes() + table.tobytes() + known
            sizes = (len(table), width, len(known))
            write(file, end + FOOTER.pack(MAGIC, *sizes, zlib.crc32(end)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename in (None, temporary):  # which says nothing
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def write(file: Any, data: bytes) -> None:
    """Write bytes to an open file."""
    file.write(data)


def open_part(path: Path) -> Part:
    """Open a file of rows.

    Raises:
        Damaged: it is absent, cut off, or not as it was written; the rows are not looked at.
    """
    try:
        handle = Handle(path)
    except FileNotFoundError as error:
        raise Damaged(f"{path} is absent") from error
    rows, width, table, end = read_end(handle, path)
    return Part(handle, path, rows, table, width, json.loads(end[8 * (rows + 1 + rows * width) :]))


def read_end(handle: Handle, path: Path) -> tuple[int, int, int, bytes]:
    """Return the counts of rows and of numbers per row, where the rows end, and what follows them.

    Raises:
        Damaged: as `open_part`.
    """
    size = os.fstat(handle.number).st_size
    footer = handle.read(FOOTER.size, max(0, size - FOOTER.size))
    magic, rows, width, known, checksum = FOOTER.unpack(footer.ljust(FOOTER.size))
    length = 8 * (rows + 1 + rows * width) + known
    if magic != MAGIC or length + FOOTER.size > size:
        raise Damaged(f"{path} is not whole")
    end = handle.read(length, size - FOOTER.size - length)
    if zlib.crc32(end) != checksum:
        raise Damaged(f"{path} is damaged")
    return rows, width, size - FOOTER.size - length, end


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Return a copy of whole numbers, in as few bytes as all have room in: many are in memory."""
    for kind in (np.int16, np.int32):
        bounds = np.iinfo(kind)
        if not numbers.size or bounds.min <= numbers.min() and numbers.max() <= bounds.max:
            return numbers.astype(kind)
    return numbers.astype(np.int64)


# ------------------------------------------------------------------------- many files


class Rows(Sequence):
    """The rows of several files as one sequence, each read when it is asked for.

    Args:
        parts: the files, open.
        chosen: the positions of the rows in it; None: all.
    """

    def __init__(self, parts: Sequence[Part], chosen: np.ndarray | None = None) -> None:
        self.parts, self.chosen = parts, chosen
        self.firsts = np.cumsum([0, *map(len, parts)])
        self.kept: dict[int, Any] = {}

    def restored(self, data: bytes) -> Any:
        """Return the item of the sequence that the bytes of a row hold."""
        raise NotImplementedError

    def mend(self, position: int) -> bytes:
        """Return the bytes of the row at a position among all, made anew: it is damaged."""
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self.firsts[-1]) if self.chosen is None else len(self.chosen)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self.in_order(range(*index.indices(len(self)))))
        position = range(len(self))[index]  # from the end too, and IndexError beyond it
        position = position if self.chosen is None else int(self.chosen[position])
        if (row := self.kept.get(position)) is None:
            if len(self.kept) >= ROWS_KEPT:
                self.kept.clear()
            row = self.kept[position] = self.restored(self.bytes_of(position))
        return row

    def __iter__(self) -> Iterator[Any]:
        return self.in_order(range(len(self)))

    def in_order(self, positions: range) -> Iterator[Any]:
        """Yield the rows at some positions; neighbours are read together."""
        if self.chosen is not None or positions.step != 1:
            for position in positions:
                own = position if self.chosen is None else int(self.chosen[position])
                yield self.restored(self.bytes_of(own))
            return
        first = positions.start
        while first < positions.stop:
            last = min(positions.stop, first + ROWS_AT_ONCE, self.firsts[self.part_of(first) + 1])
            yield from map(self.restored, self.bytes_between(first, int(last)))
            first = int(last)

    def part_of(self, position: int) -> int:
        """Return the number of the file that has the row at a position among all."""
        return int(np.searchsorted(self.firsts, position, side="right")) - 1

    def bytes_of(self, position: int) -> bytes:
        """Return the bytes of the row at a position among all; mended where they are damaged."""
        [data] = self.bytes_between(position, position + 1)
        return data

    def bytes_between(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the bytes of the rows of one file from a position to before another."""
        number = self.part_of(first)
        before = int(self.firsts[number])
        rows = self.parts[number].rows_between(first - before, last - before)
        for position, row in enumerate(rows, first):
            yield self.mend(position) if row is None else row


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock inside the context; print a line if another process holds it now."""
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        print(f"cache: another process is busy with {what}: waiting for it", flush=True)
        lock.acquire(timeout=-1)
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", None) in (errno.EACCES, errno.EROFS, errno.ENOSPC):
            raise
        print(f"warning: {path} can't be locked ({error}): two processes may encode the same.")
    try:
        yield
    finally:
        lock.release()


# ------------------------------------------------------------ what a file depends on


def key_of(function: Callable, *values: Any) -> str:
    """Return a hash of all that decides what a function, or a class, makes of values.

    Raises:
        TypeError: a value is of a kind that has no description.
    """
    makers = {
        "python": list(sys.version_info[:2]),
        **{name: version(name) for name in ("numpy", "tokenizers")},
        "code": code_hash(inner(function).__module__),
    }
    text = json.dumps([makers, describe(function), describe(values)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def inner(function: Callable) -> Callable:
    """Return the function that a partial is of."""
    return inner(function.func) if isinstance(function, functools.partial) else function


def functions_in(function: Callable) -> list[Callable]:
    """Return the functions among the arguments of a partial one, whose code matters too."""
    values = getattr(function, "keywords", {}).values()
    return [value for value in values if callable(value)]


def describe(value: Any) -> Any:
    """Return a value as JSON that tells it apart.

    Raises:
        TypeError: there is no way.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, set | frozenset):
        return ["set", *sorted(json.dumps(describe(part)) for part in value)]
    if isinstance(value, dict):
        return ["dict", *([describe(key), describe(part)] for key, part in value.items())]
    if isinstance(value, SettingsRead):
        return describe(value.known)
    if isinstance(value, Tokenizer):
        return value.to_str()
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, CoreSettings):
        return describe(own_settings(value))
    if isinstance(value, BaseModel):
        return [type(value).__name__, describe(value.model_dump())]
    if is_dataclass(value) and not isinstance(value, type):
        own = [describe(getattr(value, field.name)) for field in fields(value)]
        return [type(value).__name__, *own]
    if isinstance(value, functools.partial):
        return ["partial", describe(value.func), describe(value.args), describe(value.keywords)]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(f"{type(value).__name__} has no description")


def own_settings(settings: CoreSettings) -> dict[str, Any]:
    """Return the settings of a task, of its tables those in `TABLES`, and `max_length`."""
    others = RecordSettings.model_fields.keys() - {"max_length"}
    values = {name: getattr(settings, name) for name in type(settings).model_fields}
    return {
        name: value
        for name, value in values.items()
        if name not in others and (name in TABLES or not isinstance(value, BaseModel))
    }


class NotInTheKey(InputError):
    """A setting was read that the key of what is kept does not hold."""


class SettingsRead:
    """Settings that a reading, or an encoding, may read; another would have to be in its key.

    Args:
        settings: of the project.
        **others: that are read, and change nothing that is kept.
    """

    def __init__(self, settings: CoreSettings, **others: Any) -> None:
        self.known, self.others = own_settings(settings), others
        self.refused = frozenset(dir(settings)) - self.known.keys() - others.keys()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "refused" not in vars(self):  # while it is unpickled
            raise AttributeError(name)
        if name in self.refused:
            raise NotInTheKey(
                f"task/data.py or task/records.py reads the setting {name}, which extras/cache "
                "does not look at: set cache.enabled = false, or give the value another way."
            )
        try:
            return self.others[name] if name in self.others else self.known[name]
        except KeyError:
            raise AttributeError(name) from None


def with_settings_read(function: Callable) -> Callable:
    """Return a function, or a partial one, whose settings are those that it may read."""
    if not isinstance(function, functools.partial):
        return function

    def narrowed(value: Any) -> Any:
        return SettingsRead(value) if isinstance(value, CoreSettings) else with_settings_read(value)

    named = {name: narrowed(value) for name, value in function.keywords.items()}
    return functools.partial(function.func, *function.args, **named)


def code_hash(module: str) -> str:
    """Return the hash of this extra, of a module, and of all in the project that it may run."""
    path = getattr(sys.modules.get(module), "__file__", None)
    roots = [PROJECT, *([Path(path).parents[module.count(".")]] if path else [])]
    entries = {root: {entry.stem for entry in root.iterdir()} for root in roots}
    files = {path.name: path.read_bytes() for path in Path(__file__).parent.glob("*.py")}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in files and (found := find_module(name, entries)):
            files[name] = found.read_bytes()
            waiting += imports_of(files[name])
    parts = (f"{name} {hashlib.sha256(files[name]).hexdigest()}\n" for name in sorted(files))
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def find_module(name: str, entries: dict[Path, set[str]]) -> Path | None:
    """Return the file of a module of the project, whether or not it is imported by now.

    Args:
        name: of any module: most that are imported are not the project's.
        entries: the names in each folder that modules are imported from, without endings.
    """
    package, *_ = parts = name.split(".")
    for root in (root for root, names in entries.items() if package in names):
        place = root.joinpath(*parts)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


@functools.cache
def imports_of(code: bytes) -> list[str]:
    """Return the names of the modules that code may import, directly or by `ask` and `need`.

    Patterns find them in a tenth of the time that parsing takes, which each start would wait for.
    A word in a comment that looks like one is one more file in the hash.
    """
    text, names = code.decode(), []
    for module, listed in IMPORT.findall(text):
        parts = re.findall(r"[\w.]+", re.sub(r"#.*| as \w+", "", listed))
        names += [module, *(f"{module}.{part}" for part in parts)] if module else parts
    for who, word, module in DOOR.findall(text):
        names += modules_with_hook(word) if who == "ask" else [f"extras.{word}.{module or word}"]
    return names


@functools.cache
def modules_with_hook(hook: str) -> list[str]:
    """Return the names of the modules of extras, other than this one, that have a hook."""
    own = Path(__file__).parent.name
    return [f"extras.{name}.hooks" for name in present() if name != own and hook in hooks_of(name)]
