"""The examples of a file: its records are checked once, and each is read when it is asked for."""

import codecs
import contextlib
import functools
import hashlib
import json
import os
import pickle
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from core.base.errors import InputError
from core.base.files import PROJECT, TEMPORARY
from core.data.records import SHOWN_KEYS, names_numbers, read_weighted
from extras.cache.beam_workers import share_on_beam
from extras.cache.processes import count_cores, share
from extras.cache.settings import Table
from extras.cache.storage import (
    Damaged,
    NotInTheKey,
    Part,
    Rows,
    functions_in,
    key_of,
    locked,
    open_part,
    write_part,
)

# Bytes of a file that are encoded at once: what an interruption loses at the most, and what one
# process encodes alone at the end, when nothing is left for the others.
BLOCK = 1 << 20
MOST_BLOCKS = 64  # of a file: each is a file that is open while it is in use
SHARED = 1 << 22  # bytes of a file that several processes encode together
READ_AT_ONCE = 1 << 18
SETTLED = 3.0  # seconds after a change within which another one may leave the same time stamps
PICKLE = 5  # the protocol: an example is read in a fraction of the time that its checks take


@dataclass(frozen=True)
class Block:
    """Whole lines of a file: its bytes from `start` to `end`; `line` lines come before them."""

    number: int
    start: int
    end: int
    line: int

    @property
    def name(self) -> str:
        """Of the file of rows that is made of it."""
        return f"{self.number:05}.rows"


@dataclass(frozen=True)
class Source:
    """A file of records, and what was kept of it.

    Attributes:
        path: of the file; `blocks` are all of it.
        folder: of all that is kept of it; `key` tells apart how its records are read.
        read_one: as in `read_records` of core.
        processes: that share what is to be made; `beam`: options of Beam, whose workers do so.
    """

    path: Path
    folder: Path
    key: str
    read_one: Callable[[dict, int], Any] | None
    blocks: list[Block]
    processes: int
    beam: str = ""

    @property
    def records(self) -> Path:
        """The folder of its records."""
        return self.folder / f"records-{self.key}"

    def make_parts(
        self, folder: Path, make: Callable[[Block], None], title: str
    ) -> tuple[list[Part], bool]:
        """Return a file of rows for each block, and whether any had to be made.

        Whoever calls this holds the lock.

        Args:
            folder: of these files; what is whole in it stays.
            make: writes the file of a block; it can be pickled.
            title: of the bar of progress.
        """
        folder.mkdir(exist_ok=True)
        delete_left_over(folder)
        parts, missing = {}, []
        for block in self.blocks:
            try:
                parts[block] = open_part(folder / block.name)
            except Damaged:
                missing.append(block)
        total, rest = (sum(b.end - b.start for b in blocks) for blocks in (self.blocks, missing))
        bar = {"total": total, "initial": total - rest, "unit": "B", "unit_scale": True}
        large = rest >= SHARED
        with tqdm(desc=title, leave=False, disable=None if missing else True, **bar) as progress:
            if self.beam and large:
                calls: Iterable = share_on_beam(make, missing, self.beam)
            else:
                calls = share(make, missing, self.processes if large else 1)
            for block, _ in calls:
                progress.update(block.end - block.start)
        delete_left_over(folder)  # of workers that were lost, and whose share others have done
        try:
            return [parts.get(b) or open_part(folder / b.name) for b in self.blocks], bool(missing)
        except Damaged as error:
            raise InputError(f"{error}, though it was just written: is the disk sound?") from error

    @property
    def is_large(self) -> bool:
        """Whether it is worth while to start processes."""
        return self.blocks[-1].end >= SHARED

    def examples_of(self, block: Block) -> "Examples":
        """Return the examples of a block."""
        return Examples(replace(self, blocks=[block]), [open_part(self.records / block.name)])


class Examples(Rows):
    """The examples of a file in the place of a list of them; each is made when it is asked for."""

    def __init__(
        self, source: Source, parts: Sequence[Part], chosen: np.ndarray | None = None
    ) -> None:
        super().__init__(parts, chosen)
        self.source = source

    def restored(self, data: bytes) -> Any:
        """Return the example of the bytes of a row."""
        return pickle.loads(data)

    def mend(self, position: int) -> bytes:
        """Let the damaged part, and any other of the cache, be made anew by the next process.

        Raises:
            InputError: always.
        """
        path = self.source.records / self.source.blocks[self.part_of(position)].name
        path.unlink(missing_ok=True)
        damaged = [path, *delete_damaged(self.source.folder.parent)]
        shown = ", ".join(map(str, damaged))
        what, again = "was damaged, and is deleted", "it"
        if len(damaged) > 1:
            what, again = "were damaged; all are deleted", "them"
        raise InputError(f"{shown} {what}: run the same command again, which makes {again} anew.")

    def recall(self, function: Callable[[Any], Any], joined: bool = False) -> Any:
        """Return what a function says of all examples, or said of them before.

        It is asked anew about examples that were chosen from a file.
        """
        return recall(function, self, joined) if self.chosen is None else function(self)

    def choose(self, positions: Sequence[int]) -> "Examples":
        """Return the examples at some positions, which are read as these are."""
        chosen = np.asarray(positions)
        whole = chosen if self.chosen is None else self.chosen[chosen]
        return Examples(self.source, self.parts, whole)


def open_examples(
    path: Path, fields: Collection[str], read_one: Callable[[dict, int], Any], table: Table
) -> Examples | None:
    """Return the examples of a file, which are checked first if that was not done before.

    None: core is to read it, and to say what is wrong with it.
    """
    try:
        pickle.dumps(read_one)
    except (AttributeError, TypeError, pickle.PicklingError):
        print(f"cache: {path} is not kept: another process can't import what reads its records.")
        return None
    folder = folder_of(path, table)
    with locked(folder / ".lock", path.name):
        before = state_of(path)
        content, blocks = survey(path, folder)
        forget_other_content(folder, path, content)
        key = key_of(read_one, sorted(fields))
        processes = table.processes or count_cores()
        source = Source(path, folder, key, read_one, blocks, processes, table.beam)
        check = functools.partial(
            check_block, path=path, fields=fields, read_one=read_one, folder=source.records
        )
        try:
            parts, made = source.make_parts(source.records, check, f"check {path.name}")
        except Unfit:
            print(f"cache: {path} is not kept: a record is wrong, or a line ends in another way.")
            shutil.rmtree(source.records, ignore_errors=True)
            return None
        refuse_change(path, before, source.records)
        examples = Examples(source, parts)
        if not len(examples) or recall(has_repeated_ids, examples):
            shutil.rmtree(source.records, ignore_errors=True)
            return None
        if made:
            print(f"cache: {len(examples)} records of {path} checked, {size_of(source.records)}")
    warn_of_keys(path, fields, parts)
    return examples


def delete_left_over(folder: Path) -> None:
    """Delete the files that a killed process has not finished."""
    for left_over in folder.glob(f"{TEMPORARY}*"):
        left_over.unlink(missing_ok=True)


def folder_of(path: Path, table: Table) -> Path:
    """Return the folder of all that is kept of a file, which is there from now on."""
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    folder = PROJECT / table.folder / f"{path.stem}-{place}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True)
class State:
    """Facts by which Git, too, sees whether a file has changed, without reading it again.

    Attributes:
        size: in bytes.
        written: when its bytes were changed, in nanoseconds; a program can set that back.
        changed: when its inode was changed, which no program sets; on Windows when it was made.
        entry: number of the inode.
    """

    size: int
    written: int
    changed: int
    entry: int


def state_of(path: Path) -> State:
    """Return the state of a file."""
    now = path.stat()
    return State(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)


def refuse_change(path: Path, before: State, records: Path) -> None:
    """Delete records of a file that has changed while they were read.

    Raises:
        InputError: it has.
    """
    if state_of(path) != before:
        shutil.rmtree(records, ignore_errors=True)
        raise InputError(f"{path} has changed while it was read: run the same command again.")


def has_repeated_ids(examples: Examples) -> bool:
    """Tell whether two records of a file may have one id, by the hashes of the ids."""
    ids = np.empty(len(examples), np.int64)
    for part, end in zip(examples.parts, examples.firsts[1:], strict=True):
        ids[end - len(part) : end] = part.numbers()[:, 0]
    ids.sort()  # in its place, as there may be many
    return bool((ids[1:] == ids[:-1]).any())


class Unfit(Exception):
    """A record that is not an object, or a line that core cuts in another way."""


def survey(path: Path, folder: Path) -> tuple[str, list[Block]]:
    """Return the hash of a file, and the blocks of whole lines that it is cut into.

    The file is not read where both are kept in the folder and it has not changed since then.
    """
    kept, state = folder / "survey.rows", state_of(path)
    told = [BLOCK, *astuple(state)]
    with contextlib.suppress(Damaged):
        known = open_part(kept).facts
        if known["state"] == told:
            return known["sha256"], [Block(*block) for block in known["blocks"]]
    age = time.time_ns() - max(state.written, state.changed)
    content, blocks = cut(path)
    if age > SETTLED * 1e9:
        facts = {"state": told, "sha256": content, "blocks": [*map(astuple, blocks)]}
        write_part(kept, 0, [], lambda: facts)
    return content, blocks


def cut(path: Path) -> tuple[str, list[Block]]:
    """Read a file: return its hash, and the blocks of whole lines that it is cut into."""
    size = max(BLOCK, -(-path.stat().st_size // MOST_BLOCKS))
    digest = hashlib.sha256()
    blocks: list[Block] = []
    place = start = lines = before = 0
    with open(path, "rb") as file:
        while data := file.read(READ_AT_ONCE):
            digest.update(data)
            place += len(data)
            lines += data.count(b"\n")
            border = place - len(data) + data.rfind(b"\n") + 1
            if b"\n" in data and border - start >= size:
                blocks.append(Block(len(blocks), start, border, before))
                start, before = border, lines
    if place > start:
        blocks.append(Block(len(blocks), start, place, before))
    return digest.hexdigest(), blocks


def forget_other_content(folder: Path, path: Path, content: str) -> None:
    """Delete what was kept of a file when it had another content."""
    note = folder / "source.json"
    now = {"file": path.name, "sha256": content}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if json.loads(note.read_text(encoding="utf-8")) == now:
            return
    for old in folder.iterdir():
        if old.is_dir():
            print(f"cache: {old} is deleted, for {path.name} has changed")
            shutil.rmtree(old, ignore_errors=True)
    for fact in folder.glob("*.fact"):
        fact.unlink(missing_ok=True)
    write_note(note, now)


def write_note(path: Path, value: Any) -> None:
    """Write a small JSON file, whole or not at all, whatever worker this is."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(temporary, path)


def check_block(
    block: Block,
    path: Path,
    fields: Collection[str],
    read_one: Callable[[dict, int], Any],
    folder: Path,
) -> None:
    """Read the records of a block, and write the examples that are made of them as rows.

    Raises:
        Unfit: something is wrong with a record; core says what.
    """
    strange: dict[str, int] = {}
    line, known = block.line, set(fields)

    def make_object(pairs: list[tuple[str, Any]]) -> dict:
        made = dict(pairs)
        if (len(made) < len(pairs) or not made.keys() <= known) and not names_numbers(pairs):
            keys = [key for key, _ in pairs]
            for key in keys:
                if key not in known or keys.count(key) > 1:
                    strange.setdefault(key, line)
        return made

    def rows() -> Any:
        nonlocal line
        with open(path, "rb") as file:
            file.seek(block.start)
            place = block.start
            while place < block.end and (data := file.readline()):
                data = data.removeprefix(codecs.BOM_UTF8) if not place else data
                place, line = file.tell(), line + 1
                if b"\r" in data[:-2]:
                    raise Unfit
                text = data.decode()
                if text.strip():
                    record = json.loads(text, object_pairs_hook=make_object)
                    if not isinstance(record, dict):
                        raise Unfit
                    if "\\u" in text:  # as half a character may be written
                        json.dumps(record, ensure_ascii=False).encode()
                    example = read_weighted(record, line, read_one)
                    yield pickle.dumps(example, PICKLE), (short_hash(str(example.id)),)

    try:
        write_part(folder / block.name, 1, rows(), lambda: {"strange": list(strange.items())})
    except NotInTheKey:
        raise
    except (InputError, ValueError, RecursionError) as error:
        raise Unfit from error


def short_hash(text: str) -> int:
    """Return a number of 64 bits that tells a text from others."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def warn_of_keys(path: Path, fields: Collection[str], parts: Sequence[Part]) -> None:
    """Print the keys that nothing reads, as `read_records` of core does."""
    strange: dict[str, int] = {}
    for part in parts:
        for key, line in part.facts["strange"]:
            strange.setdefault(key, line)
    for key, line in list(strange.items())[:SHOWN_KEYS]:
        what = "occurs twice in one object" if key in fields else "is not read"
        names = ", ".join(fields)
        print(f'warning: {path}, line {line}: "{key[:40]}" {what}: the fields are {names}')
    if len(strange) > SHOWN_KEYS:
        print(f"warning: {path}: the same holds for {len(strange) - SHOWN_KEYS} more keys")


def size_of(folder: Path) -> str:
    """Return what a folder takes, in words."""
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    shown = folder.relative_to(PROJECT) if folder.is_relative_to(PROJECT) else folder
    return f"{size:.1f} MB in {shown}"


def recall(function: Callable[[Any], Any], examples: Examples, joined: bool = False) -> Any:
    """Return what a function says of all examples of a file, or said before; None: ask it.

    Args:
        function: can be pickled.
        examples: of a file.
        joined: what it says of parts of them can be joined, so several processes may ask it.
    """
    if examples.chosen is not None:
        return None
    source = examples.source
    key = key_of(function, source.key, *(key_of(one) for one in functions_in(function)))
    path = source.folder / f"{key}.fact"
    with contextlib.suppress(Damaged):
        return pickle.loads(Fact([open_part(path)])[0])
    if joined:
        ask = functools.partial(ask_block, source=source, function=function)
        calls = share(ask, source.blocks, source.processes if source.is_large else 1)
        value = join([found for _, found in sorted(calls, key=lambda call: call[0].number)])
    else:
        value = function(examples)
    write_part(path, 0, [(pickle.dumps(value), ())])
    return value


def join(parts: Sequence[Any]) -> Any:
    """Return what was said of all parts: a set, the sums of counts, the first value of each key."""
    if isinstance(parts[0], Counter):
        return sum(parts, Counter())
    if isinstance(parts[0], dict):
        return {key: value for part in reversed(parts) for key, value in part.items()}
    return set().union(*parts)


def ask_block(block: Block, source: Source, function: Callable[[Any], Any]) -> Any:
    """Return what a function says of the examples of a block."""
    return function(source.examples_of(block))


def delete_damaged(folder: Path) -> list[Path]:
    """Delete all files of a cache that hold a damaged row, and return them.

    Where one is damaged there may be more, and each would end another start. All are read for it.
    """
    damaged = []
    for path in sorted(folder.glob("*/*/*.rows")):
        try:
            part = open_part(path)
            sound = all(row is not None for row in part.rows_between(0, len(part)))
        except Damaged:
            sound = False
        if not sound:
            path.unlink(missing_ok=True)
            damaged.append(path)
    return damaged


class Fact(Rows):
    """The bytes of what a function has said."""

    def restored(self, data: bytes) -> bytes:
        """Return them as they are."""
        return data

    def mend(self, position: int) -> bytes:
        """Let the function say it again.

        Raises:
            Damaged: always.
        """
        raise Damaged("a fact is damaged")
