"""Batches whose items were encoded before: each is read when a batch asks for it."""

import copy
import functools
import inspect
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.batches import DataGenerator
from core.data.records import record_weights
from extras.cache.plans import plan
from extras.cache.sources import Block, Examples, Source, size_of
from extras.cache.storage import (
    Damaged,
    Part,
    Rows,
    SettingsRead,
    classes_of,
    key_of,
    locked,
    narrow,
    pack,
    unpack,
    write_part,
)
from extras.cache.words import WordTokenizer, encodes_words

EXAMPLES_AT_ONCE = 1024
# Settings of the order of the items, which each training chooses; they change no item.
ORDER = {"buckets": 1, "seed": 0}


def open_items(
    kind: type[DataGenerator], examples: Examples, arguments: tuple
) -> DataGenerator | None:
    """Return the batches of examples; encode their items first, unless the cache has them.

    The generator of the first example that has an item becomes that of the whole file: the
    sequences that `of_items` names are then read from files, and `sizes` stay in memory.

    Args:
        kind: the class of the generator of a task.
        examples: of a file, or some of them.
        arguments: of the class, besides the examples.
    """
    named = inspect.signature(kind).bind(examples, *arguments)
    named.apply_defaults()
    known = {name: value for name, value in named.arguments.items() if name != "examples"}
    settings = known["settings"]
    whole = whole_of(examples)
    alone = (kind(whole[place : place + 1], *arguments) for place in range(len(whole)))
    generator = next((one for one in alone if one.size), None)
    if generator is None:
        return None  # core says what that means
    rows = [row for row, _ in items_of(generator)]
    classes = classes_of(rows)
    known |= {"settings": SettingsRead(settings, **ORDER), "batch_size": 1}
    source, key = examples.source, key_of(kind, examples.source.key, known)
    if encodes_words(known.get("tokenizer")):
        known["tokenizer"] = WordTokenizer(known["tokenizer"])
    folder = source.folder / f"items-{key}"
    anew = functools.partial(encode, kind=kind, arguments=known)
    width = numbers_of(generator).shape[1]
    make = functools.partial(
        encode_block, source=source, kind=kind, arguments=known, folder=folder, width=width
    )
    began = time.perf_counter()
    with locked(source.folder / ".lock", source.path.name):
        parts, made = source.make_parts(folder, make, f"encode {source.path.name}")
        items = Items(parts, whole, classes, anew, folder)
        if not items.agree_with(rows):
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


def encode_block(
    block: Block,
    source: Source,
    kind: type[DataGenerator],
    arguments: dict,
    folder: Path,
    width: int,
) -> None:
    """Encode the examples of a block and write the items as rows, each with `width` numbers."""
    measured: dict[str, Any] = {}
    rows = encode(source.examples_of(block), kind, arguments, measured)
    write_part(folder / block.name, width, rows, lambda: {"measured": measured})


def encode(
    examples: Sequence, kind: type[DataGenerator], arguments: dict, measured: dict | None = None
) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the items of examples as rows, each with its example, its length and its sizes.

    What `measure` sets, of all of them, is put into `measured`, unless it follows from the sizes.
    """
    measured = {} if measured is None else measured
    for first in range(0, len(examples), EXAMPLES_AT_ONCE):
        generator = kind(examples=examples[first : first + EXAMPLES_AT_ONCE], **arguments)  # type: ignore[call-arg]
        if sizes_of(generator) is None:
            for name, value in what_measure_sets(generator).items():
                measured[name] = merged(value, measured.get(name, value))
        items = list(items_of(generator))
        for data, (_, (example, *numbers)) in zip(
            pack([row for row, _ in items]), items, strict=True
        ):
            yield data, [first + example, *numbers]


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


def items_of(generator: DataGenerator) -> Iterator[tuple[list, list[int]]]:
    """Yield the entries of each item with its numbers."""
    lists = [*(getattr(generator, name) for name in generator.of_items), record_weights(generator)]
    absent = [own is None or not len(own) for own in lists]
    for item, numbers in enumerate(numbers_of(generator).tolist()):
        *row, weight = (None if no else own[item] for own, no in zip(lists, absent, strict=True))
        # An item without a weight has as many entries as `of_items`: most files have none.
        yield row if weight in (None, 1) else [*row, weight], numbers


def numbers_of(generator: DataGenerator) -> np.ndarray:
    """Return `[items, 2 + k]`: the position of its example, its length and its sizes."""
    lengths, sizes = generator.lengths, sizes_of(generator)
    record_of = getattr(generator, "record_of", np.arange(len(lengths)))
    columns = [np.asarray(record_of), lengths, *(() if sizes is None else sizes.T)]
    return np.stack(columns, axis=1).astype(np.int64)


def sizes_of(generator: DataGenerator) -> np.ndarray | None:
    """Return numbers of each item `[items, k]` that `measure` reads; None: it reads the items."""
    return getattr(generator, "sizes", None)


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
        lengths, sizes = [], []
        for part in parts:  # each is read once
            numbers = part.numbers()
            lengths.append(narrow(numbers[:, 1]))
            sizes.append(narrow(numbers[:, 2:]))
        self.lengths, self.sizes = np.concatenate(lengths), np.concatenate(sizes)

    @functools.cached_property
    def record_of(self) -> np.ndarray:
        """The position of the example of each item; a training asks for none of them.

        Raises:
            InputError: a file was damaged since it was opened.
        """
        parts = zip(self.parts, self.examples.firsts.tolist(), strict=False)
        try:
            found = [narrow(p.numbers()[:, 0].astype(np.int64) + first) for p, first in parts]
        except Damaged as error:
            raise InputError(f"{error}: run the same command again.") from error
        return np.concatenate(found)

    def restored(self, data: bytes) -> list:
        """Return the entries of the bytes of a row."""
        return unpack(data, self.classes)

    def mend(self, position: int) -> bytes:
        """Return the bytes of a damaged row, and let the next process make its file anew."""
        path = self.folder / self.examples.source.blocks[self.part_of(position)].name
        if path.is_file():
            print(f"warning: {path} is damaged: it is deleted, and made anew by the next start.")
            path.unlink(missing_ok=True)
        example = int(self.record_of[position])
        rows = [row for row, _ in self.encode_anew(self.examples[example : example + 1])]
        return rows[position - int(np.searchsorted(self.record_of, example))]

    def agree_with(self, rows: Sequence[list]) -> bool:
        """Tell whether the first rows are those that were encoded now."""
        return pack(self[: len(rows)]) == pack(rows)

    def of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the items of some examples, and the place in `chosen` of each."""
        firsts = np.searchsorted(self.record_of, chosen, side="left")
        counts = np.searchsorted(self.record_of, chosen, side="right") - firsts
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
        if isinstance(index, np.ndarray) and index.ndim:
            return np.stack([self[position] for position in index.tolist()])
        position = range(len(self))[index]
        return self.of(self.items[position if self.positions is None else self.positions[position]])

    def of(self, row: list) -> Any:
        """Return the entry of an item."""
        return row[self.entry]


class Weights(Entries):
    """The weight of each item in the loss: the entry after those of `of_items`, or 1."""

    def of(self, row: list) -> float:
        return row[self.entry] if len(row) > self.entry else 1.0


class ExampleOf(Sequence):
    """The position of the example of each item; they are read when one of them is asked for."""

    def __init__(self, items: Items) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items.record_of[index]


def fill(
    generator: DataGenerator, items: Items, examples: Examples, settings: CoreSettings
) -> None:
    """Let a generator of the first example be one of all, or of those that were chosen."""
    positions: np.ndarray | None = None
    record_of: Sequence | np.ndarray = ExampleOf(items)
    lengths, sizes = items.lengths, items.sizes
    if examples.chosen is not None:
        positions, record_of = items.of(examples.chosen)
        lengths, sizes = lengths[positions], sizes[positions]
    size, seed = generator.batch_size, settings.seed
    DataGenerator.__init__(generator, lengths, size, settings.buckets, seed)  # type: ignore[arg-type]
    generator.plan = functools.partial(plan, generator)  # type: ignore[method-assign,assignment]
    for entry, name in enumerate(generator.of_items):
        if items[0][entry] is not None:
            setattr(generator, name, Entries(items, entry, positions))
    generator.weights = Weights(items, len(generator.of_items), positions)
    others = {"examples": examples, "record_of": record_of, "sizes": sizes}
    vars(generator).update({k: v for k, v in others.items() if hasattr(generator, k)})
    if positions is not None or sizes_of(generator) is not None:
        generator.measure()
        return
    for part in items.parts:
        for name, value in part.facts["measured"].items():
            setattr(generator, name, merged(value, getattr(generator, name)))
