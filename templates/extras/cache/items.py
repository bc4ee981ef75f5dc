"""Batches whose items were encoded before: each is read when a batch asks for it."""

import copy
import functools
import inspect
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.data.data_generator import DataGenerator
from extras.cache.sources import Block, Examples, Source, size_of
from extras.cache.storage import (
    Part,
    Rows,
    classes_of,
    key_of,
    locked,
    open_part,
    own_settings,
    pack,
    unpack,
    write_part,
)

EXAMPLES_AT_ONCE = 1024
# Of the order of the items, which is decided when a training begins.
ORDER = {"buckets": 1, "seed": 0}


def open_items(
    kind: type[DataGenerator], examples: Examples, arguments: tuple
) -> DataGenerator | None:
    """Return the batches of examples, whose items are encoded first where nobody has done so.

    The generator of the whole file is put together from those of its parts: the sequences that
    `of_items` names are read from files, and everything else is as it makes it of one example.

    Args:
        kind: the class of the generator of a task.
        examples: of a file, or some of them.
        arguments: of the class, beside the examples.
    """
    named = inspect.signature(kind).bind(examples, *arguments)
    named.apply_defaults()
    known = {name: value for name, value in named.arguments.items() if name != "examples"}
    settings = known["settings"]
    whole = whole_of(examples)
    generator = kind(whole[:1], *arguments)
    rows = [row for row, _, _ in items_of(generator)]
    classes = classes_of(rows)
    known |= {"settings": settings_read(settings), "batch_size": 1}
    source, key = examples.source, key_of(kind, examples.source.key, known)
    folder = source.folder / f"items-{key}"
    anew = functools.partial(encode, kind=kind, arguments=known)
    make = functools.partial(encode_block, source=source, kind=kind, arguments=known, folder=folder)
    began = time.perf_counter()
    with locked(source.folder / ".lock", source.path.name):
        parts, made = source.make_parts(folder, make, f"encode {source.path.name}")
        items = Items(parts, whole, classes, anew, folder)
        if not items.agree_with([pack(row) for row in rows]):
            print(
                f"warning: {source.path.name} is encoded otherwise than it was, with the same code "
                "and settings: it is not kept."
            )
            shutil.rmtree(folder, ignore_errors=True)
            return None
    what = f"encoded in {time.perf_counter() - began:.0f} s" if made else "read"
    print(f"cache: {len(items)} items of {source.path} {what}, {size_of(folder)}")
    fill(generator, items, examples, settings)
    return generator


def whole_of(examples: Examples) -> Examples:
    """Return all examples of the file that some are of."""
    return examples if examples.chosen is None else Examples(examples.source, examples.parts)


def settings_read(settings: CoreSettings) -> "SettingsRead":
    """Return the settings that an encoding may read, and no others."""
    return SettingsRead(**own_settings(settings), **ORDER)


class SettingsRead(SimpleNamespace):
    """Settings that an encoding may read; another one would have to be in the key of its items."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(
            f"the encoding of task/data.py reads the setting {name}, which extras/cache does not "
            "look at: set cache.enabled = false, or give the value another way."
        )


def encode_block(
    block: Block, source: Source, kind: type[DataGenerator], arguments: dict, folder: Path
) -> None:
    """Encode the examples of a block and write the items as rows, with example and length."""
    own = replace(source, blocks=[block])
    examples = Examples(own, [open_part(own.records / block.name)])
    measured: dict[str, Any] = {}
    rows = encode(examples, kind, arguments, measured)
    write_part(folder / block.name, 2, rows, lambda: {"measured": measured})


def encode(
    examples: Sequence, kind: type[DataGenerator], arguments: dict, measured: dict | None = None
) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield the items of examples as rows, each with its example and its length.

    What `measure` sets, of all of them, is put into `measured`.
    """
    measured = {} if measured is None else measured
    for first in range(0, len(examples), EXAMPLES_AT_ONCE):
        generator = kind(examples=examples[first : first + EXAMPLES_AT_ONCE], **arguments)  # type: ignore[call-arg]
        for name, value in what_measure_sets(generator).items():
            measured[name] = merged(value, measured.get(name, value))
        for row, example, length in items_of(generator):
            yield pack(row), (first + example, length)


def what_measure_sets(generator: DataGenerator) -> dict[str, Any]:
    """Return the attributes that `measure` sets, by name."""
    found: dict[str, Any] = {}

    class Watched(type(generator)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            found[name] = value
            super().__setattr__(name, value)

    watched = copy.copy(generator)
    watched.__class__ = Watched
    watched.measure()
    return found


def items_of(generator: DataGenerator) -> Iterator[tuple[list, int, int]]:
    """Yield the entries of each item, the position of its example, and its length."""
    lists = [getattr(generator, name) for name in generator.of_items]
    example_of = getattr(generator, "example_of", range(len(generator.lengths)))
    for item, length in enumerate(generator.lengths.tolist()):
        yield [own[item] if len(own) else None for own in lists], int(example_of[item]), length


def merged(one: Any, two: Any) -> Any:
    """Return the larger of two numbers, or of each number in two dicts."""
    if isinstance(one, dict):
        return {name: merged(value, two[name]) for name, value in one.items()}
    return max(one, two)


class Items(Rows):
    """The items of the examples of a file, each a list with an entry for each of `of_items`.

    Args:
        parts: files of rows, one for each of the files of examples.
        examples: all of the file.
        classes: the dataclasses in the items, by their names.
        encode_anew: from some examples to the rows of their items.
        folder: of the parts.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        examples: Examples,
        classes: dict[str, type],
        encode_anew: Callable[[Sequence], Iterator[tuple[bytes, Any]]],
        folder: Path,
    ) -> None:
        super().__init__(parts)
        self.examples, self.folder = examples, folder
        self.classes, self.encode_anew = classes, encode_anew
        numbers = zip(parts, examples.firsts, strict=False)
        self.example_of = np.concatenate([part.numbers[:, 0] + first for part, first in numbers])
        self.lengths = np.concatenate([part.numbers[:, 1] for part in parts])

    def restored(self, data: bytes) -> list:
        """Return the entries of the bytes of a row."""
        return unpack(data, self.classes)

    def mend(self, position: int) -> bytes:
        """Return the bytes of a row that is damaged, and let the next process mend its file."""
        path = self.folder / self.examples.source.blocks[self.part_of(position)].name
        if path.is_file():
            print(f"warning: {path} is damaged: it is deleted, and made anew by the next start.")
            path.unlink(missing_ok=True)
        example = int(self.example_of[position])
        rows = [row for row, _ in self.encode_anew(self.examples[example : example + 1])]
        return rows[position - int(np.searchsorted(self.example_of, example))]

    def agree_with(self, rows: Sequence[bytes]) -> bool:
        """Tell whether the first rows are those that were encoded now."""
        return [self.bytes_of(position) for position in range(len(rows))] == list(rows)

    def of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the items of some examples, and which of these each is of."""
        firsts = np.searchsorted(self.example_of, chosen, side="left")
        counts = np.searchsorted(self.example_of, chosen, side="right") - firsts
        before = np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.repeat(firsts, counts) + np.arange(counts.sum()) - before
        return positions, np.repeat(np.arange(len(chosen)), counts)


class Entries(Sequence):
    """One entry of each item, such as its labels, at some positions; None: at all."""

    def __init__(self, items: Items, entry: int, positions: np.ndarray | None) -> None:
        self.items, self.entry, self.positions = items, entry, positions

    def __len__(self) -> int:
        return len(self.items if self.positions is None else self.positions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        return self.items[position if self.positions is None else self.positions[position]][
            self.entry
        ]


def fill(
    generator: DataGenerator, items: Items, examples: Examples, settings: CoreSettings
) -> None:
    """Let a generator of the first example be one of all, or of those that were chosen."""
    positions, example_of, lengths = None, items.example_of, items.lengths
    if examples.chosen is not None:
        positions, example_of = items.of(examples.chosen)
        lengths = lengths[positions]
    size, seed = generator.batch_size, settings.seed
    DataGenerator.__init__(generator, lengths, size, settings.buckets, seed)  # type: ignore[arg-type]
    for entry, name in enumerate(generator.of_items):
        if items[0][entry] is not None:
            setattr(generator, name, Entries(items, entry, positions))
    others = {"examples": examples, "example_of": example_of}
    vars(generator).update({k: v for k, v in others.items() if hasattr(generator, k)})
    if positions is not None:
        generator.measure()
        return
    for part in items.parts:
        for name, value in part.facts["measured"].items():
            setattr(generator, name, merged(value, getattr(generator, name)))
