"""The records that are written of each chunk: kept in files until all are there, and then joined.

A file of a chunk is written whole or not at all, and its name begins with the key of all that its
answers depend on. So processes of any parts share a folder, one that is killed goes on with the
chunks that are missing, and answers of another run or file are never among them.
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

SECONDS_BETWEEN_LINES = 60  # of progress, where nobody watches
# What chunks are of that do not fit, by the fact that differs.
NAMES = {
    "file": "another content of the file",
    "runs": "other runs",
    "flags": "other flags",
    "code": "other code",
}


class Answers(Sequence):
    """The records of all chunks in the place of a list; those of one chunk at a time are in memory.

    Args:
        plan: whose chunks are all kept.
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
        position = range(len(self))[index]  # from the end too, and IndexError beyond it
        number = int(np.searchsorted(self.firsts, position, side="right")) - 1
        return read_chunk(self.plan, number)[position - self.firsts[number]]

    def __iter__(self) -> Iterator[dict]:
        for number in range(len(self.firsts) - 1):
            yield from read_chunk(self.plan, number)


def predict_part(
    plan: Plan, describe: Callable[[Sequence], Sequence[dict]], examples: Sequence
) -> Answers:
    """Predict the chunks of this part that are missing; return the answers of all parts.

    Arguments, beside the plan, and what is raised as in the hook `predict_in_chunks`.
    """
    forget_others(plan)
    with held(plan, plan.title) as is_free:
        if not is_free:
            raise InputError(f"another process predicts {plan.title} of {plan.out}: let it end.")
        if not read_note(plan):  # known to other processes from now on
            places = getattr(examples, "places", [])  # none where core or extras/cache reads
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
                    keep_chunk(plan, number, describe(chunk_of(plan, examples, number)))
                bar.update(plan.chunk)
    return join(plan, len(starts))


def join(plan: Plan, chunks: int) -> Answers:
    """Return the answers of all parts, whose files go when OUT has been written.

    Raises:
        EndedWell: others are still missing, or another process writes OUT.
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
    """Delete the chunks if OUT has been written since, which whoever iterated over them did."""
    if state_of_out(plan) != before:
        forget(plan)
    lock.release()


def state_of_out(plan: Plan) -> tuple | None:
    """Return what differs when OUT is written; None: there is no such file."""
    return state_of(plan.out) if plan.out.is_file() else None


def forget(plan: Plan) -> None:
    """Delete all chunks."""
    shutil.rmtree(plan.folder, ignore_errors=True)


def forget_others(plan: Plan) -> None:
    """Delete the chunks of another run, file or code, and say so.

    Raises:
        InputError: another process is making them.
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
    print(f"{plan.folder} is of {what}: it is deleted, and the prediction begins anew.")
    for file in others:
        file.unlink(missing_ok=True)


# ---------------------------------------------------------------------------- files of chunks


def chunk_of(plan: Plan, examples: Sequence, number: int) -> Sequence:
    """Return the examples of a chunk."""
    return examples[number * plan.chunk : (number + 1) * plan.chunk]


def path_of(plan: Plan, number: int) -> Path:
    """Return the file of the answers of a chunk."""
    return plan.folder / f"{plan.key}-{number:06}.jsonl"


def keep_chunk(plan: Plan, number: int, records: Sequence[dict]) -> None:
    """Write the answers of a chunk, behind a line with their count and a checksum."""
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    data = "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass")
    whole = first_line(data) + b"\n" + data
    write_whole(path_of(plan, number), lambda temporary: temporary.write_bytes(whole))


def first_line(data: bytes) -> bytes:
    """Return how many answers follow, and a checksum of them."""
    return b"%d %08x" % (data.count(b"\n"), zlib.crc32(data))


def read_count(plan: Plan, number: int) -> int:
    """Return how many answers the file of a chunk says that it has; raises as `read_chunk`."""
    with open(path_of(plan, number), "rb") as file:
        count, _, rest = file.readline(80).partition(b" ")
    return int(count) if count.isdigit() and rest else len(read_chunk(plan, number))


def read_chunk(plan: Plan, number: int) -> list[dict]:
    """Return the answers of a chunk.

    Raises:
        InputError: its file is damaged; it is deleted, to be made anew.
    """
    path = path_of(plan, number)
    first, _, data = path.read_bytes().partition(b"\n")
    if first != first_line(data):
        path.unlink()
        raise InputError(
            f"{path} was damaged, and is deleted: run the same command again, which predicts this "
            "chunk anew."
        )
    # At "\n" alone: U+2028 and its like are legal inside of JSON strings.
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
    """Return a lock that this process has from now on; None: another process has it."""
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
    """Tell whether another process has a lock."""
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


def progress_of(plan: Plan, total: int, missing: int) -> tqdm:
    """Return the bar of a part with the time to go; a line a minute where nobody watches.

    Args:
        plan: of this process.
        total: records of the part; `missing` are its chunks that are to be predicted.
    """
    between = 0.1 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES
    known = max(0, total - missing * plan.chunk)
    bar = {"initial": known, "unit": "record", "mininterval": between, "leave": False}
    return tqdm(desc=plan.title, total=total, **bar)
