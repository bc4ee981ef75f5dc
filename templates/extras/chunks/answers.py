"""The predicted records of each chunk: kept in files until all chunks exist, then joined.

A chunk's file is written atomically, and its name begins with the key of everything that its
answers depend on. So processes of all parts can share a folder, a killed process resumes with the
missing chunks, and answers of other runs or files are never mixed in.
"""

import contextlib
import itertools
import json
import shutil
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from tqdm import tqdm

from core.base.errors import EndedWell, InputError
from core.base.files import TEMPORARY, read_json, write_whole
from extras.chunks.memory import emptied
from extras.chunks.plan import Plan, read_note, write_note
from extras.chunks.sources import state_of

SECONDS_BETWEEN_LINES = 60  # between progress lines without a terminal
# Origin of chunks that do not fit, by the differing fact.
NAMES = {
    "file": "another content of the file",
    "runs": "other runs",
    "flags": "other flags",
    "code": "other code",
}


class Answers(Sequence):
    """The records of all chunks, like a list; only one chunk at a time is in memory.

    Args:
        plan: all of its chunks must exist.
        chunks: of the file.
    """

    def __init__(self, plan: Plan, chunks: int) -> None:
        self.plan = plan
        counts = [read_count(plan, number) for number in range(chunks)]
        self.firsts = np.cumsum([0, *counts])

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [*itertools.islice(self, *index.indices(len(self)))]
        position = range(len(self))[index]  # negative positions too, and IndexError beyond the end
        number = int(np.searchsorted(self.firsts, position, side="right")) - 1
        return read_chunk(self.plan, number)[position - self.firsts[number]]

    def __iter__(self) -> Iterator[dict]:
        for number in range(len(self.firsts) - 1):
            yield from read_chunk(self.plan, number)


def predict_part(
    plan: Plan, describe: Callable[[Sequence], Sequence[dict]], examples: Sequence
) -> Answers:
    """Predict the missing chunks of this part; return the answers of all parts.

    The other arguments and the errors are those of the hook `predict_in_chunks`.
    """
    forget_others(plan)
    with held(plan, plan.title) as is_free:
        if not is_free:
            raise InputError(f"another process predicts {plan.title} of {plan.out}: let it end.")
        if not read_note(plan):  # known to other processes from now on
            places = getattr(examples, "places", [])  # None if core or extras/cache reads
            write_note(plan, {"records": len(examples), "places": places})
        starts = range(0, len(examples), plan.chunk)
        own = plan.own(len(starts))
        missing = [number for number in own if not path_of(plan, number).is_file()]
        if len(missing) < len(own):
            print(f"{plan.out}: {len(own) - len(missing)} of {len(own)} chunks are predicted.")
        total = len(range(len(examples))[own.start * plan.chunk : own.stop * plan.chunk])
        with progress_of(plan, total, len(missing)) as bar:
            for number in missing:
                with emptied():
                    chunk = chunk_of(plan, examples, number)
                    keep_chunk(plan, number, describe(chunk) if len(chunk) else [])
                bar.update(plan.chunk)
    return join(plan, len(starts))


def join(plan: Plan, chunks: int) -> Answers:
    """Return the answers of all parts; their files are deleted after OUT is written.

    Raises:
        EndedWell: other parts are missing, or another process writes OUT.
    """
    done = f"{plan.out}: {plan.title} is predicted"
    if not read_note(plan):
        forget(plan)
        raise EndedWell(f"{done}, and another process has written the file.")
    missing = [number for number in range(chunks) if not path_of(plan, number).is_file()]
    if missing:
        parts = plan.part[1] if plan.part else 1
        few = f"; {parts} parts share {chunks} chunks: a lower --chunk makes more"
        raise EndedWell(
            f"{done}, {len(missing)} of {chunks} chunks are still missing: the process that "
            f"predicts the last one writes the file{few if chunks < parts else ''}."
        )
    lock = hold(plan, "join")
    if lock is None:
        raise EndedWell(f"{done}, and another process writes the file.")
    answers = Answers(plan, chunks)
    weakref.finalize(answers, forget_written, plan, state_of_out(plan), lock)
    return answers


def forget_written(plan: Plan, before: tuple | None, lock: FileLock) -> None:
    """Delete the chunks if OUT was written after iterating over them."""
    if state_of_out(plan) != before:
        forget(plan)
    lock.release()


def state_of_out(plan: Plan) -> tuple | None:
    """Return a value that changes when OUT is written; None: no such file."""
    return state_of(plan.out) if plan.out.is_file() else None


def forget(plan: Plan) -> None:
    """Delete all chunks."""
    shutil.rmtree(plan.folder, ignore_errors=True)


def forget_others(plan: Plan) -> None:
    """Delete the chunks of another run, file or code, and say so.

    Raises:
        InputError: another process is writing them.
    """
    files = [*plan.folder.iterdir()] if plan.folder.is_dir() else []
    others = [file for file in files if not file.name.startswith((plan.key, TEMPORARY))]
    if not others:
        return
    for file in others:
        if file.suffix == ".lock" and is_held(file):
            raise InputError(f"another process, of other answers, writes {plan.out}: let it end.")
    known = [read_json(file)["facts"] for file in others if file.suffix == ".json"]
    names = [name for name in plan.facts if any(f[name] != plan.facts[name] for f in known)]
    what = " and ".join(NAMES[name] for name in names) or "another prediction"
    print(f"{plan.folder} is of {what}: it is deleted, and the prediction starts again.")
    for file in others:
        file.unlink(missing_ok=True)


# ---------------------------------------------------------------------------- files of chunks


def chunk_of(plan: Plan, examples: Sequence, number: int) -> Sequence:
    """Return the examples of a chunk; none, where a group that is larger than a chunk covers it."""
    return examples[edge_of(plan, examples, number) : edge_of(plan, examples, number + 1)]


def edge_of(plan: Plan, examples: Sequence, number: int) -> int:
    """Return where a chunk begins: never within records of one group that follow each other."""
    place = min(number * plan.chunk, len(examples))
    while 0 < place < len(examples):
        group = getattr(examples[place], "group", None)
        if group is None or group != examples[place - 1].group:
            break
        place += 1
    return place


def path_of(plan: Plan, number: int) -> Path:
    """Return the file of the answers of a chunk."""
    return plan.folder / f"{plan.key}-{number:06}.jsonl"


def keep_chunk(plan: Plan, number: int, records: Sequence[dict]) -> None:
    """Write a line with the count and a checksum, then the answers of a chunk."""
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    data = "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass")
    whole = first_line(data) + b"\n" + data
    write_whole(path_of(plan, number), lambda temporary: temporary.write_bytes(whole))


def first_line(data: bytes) -> bytes:
    """Return the line with the number of answers and their checksum."""
    return b"%d %08x" % (data.count(b"\n"), zlib.crc32(data))


def read_count(plan: Plan, number: int) -> int:
    """Return the number of answers that a chunk's file announces; raises as `read_chunk`."""
    with open(path_of(plan, number), "rb") as file:
        count, _, rest = file.readline(80).partition(b" ")
    return int(count) if count.isdigit() and rest else len(read_chunk(plan, number))


def read_whole(path: Path) -> bytes | None:
    """Return the answers in the file of a chunk; None: it is damaged."""
    first, _, data = path.read_bytes().partition(b"\n")
    return data if first == first_line(data) else None


def read_chunk(plan: Plan, number: int) -> list[dict]:
    """Return the answers of a chunk.

    Raises:
        InputError: its file is damaged; it is deleted and will be made again.
    """
    path = path_of(plan, number)
    data = read_whole(path)
    if data is None:
        # Where one is damaged there may be more, and each would end another start.
        others = sorted(plan.folder.glob(f"{plan.key}-*.jsonl"))
        damaged = [path, *(one for one in others if one != path and read_whole(one) is None)]
        for one in damaged:
            one.unlink(missing_ok=True)
        what = "was damaged, and is" if len(damaged) == 1 else "were damaged, and are"
        raise InputError(
            f"{', '.join(map(str, damaged))} {what} deleted: run the same command again, which "
            "predicts only what is missing."
        )
    # Only at "\n": U+2028 and similar characters are legal inside JSON strings.
    lines = data.decode(errors="surrogatepass").split("\n")
    return [json.loads(line) for line in lines[:-1]]


# ------------------------------------------------------------------------- locks and progress


@contextlib.contextmanager
def held(plan: Plan, name: str) -> Iterator[bool]:
    """Hold a lock of the plan; False: another process has it."""
    lock = hold(plan, name)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


def hold(plan: Plan, name: str) -> FileLock | None:
    """Acquire and return a lock; None: another process has it."""
    plan.folder.mkdir(exist_ok=True)
    path = plan.folder / f"{plan.key}-{name.replace(' ', '-').replace('/', '-of-')}.lock"
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        print(f"warning: {path} can't be locked ({error}): start no second process of this part.")
    return lock


def is_held(path: Path) -> bool:
    """Return whether another process has a lock."""
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


def progress_of(plan: Plan, total: int, missing: int) -> tqdm:
    """Return a part's progress bar; without a terminal it prints one line per minute.

    Args:
        plan: of this process.
        total: records of the part; `missing`: its chunks to predict.
    """
    between = 0.1 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    known = max(0, total - missing * plan.chunk)
    bar = {"initial": known, "unit": "record", "mininterval": between, "leave": False}
    return tqdm(desc=plan.title, total=total, **bar)
