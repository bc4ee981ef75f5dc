"""What one process predicts: the flags, and the key that identifies its answers."""

import functools
import hashlib
import json
import re
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import MANIFEST, PROJECT, file_hash, read_json, write_json
from core.runs.code_hash import code_hash
from core.runs.members import blended_runs, find_run, find_runs
from core.runs.scores import read_scores

CHUNK = 4096  # records; a kill loses at most one chunk
# Flags that affect where answers are written, not the answers.
PLACES = ("runs", "file", "out", "part", "sample", "columns", "values")


@dataclass(frozen=True)
class Plan:
    """The work of this process.

    Attributes:
        runs: folders of runs, or their names.
        file: to predict; `out`: to write.
        chunk: number of records that are predicted together.
        part: `(3, 16)`: the third of sixteen parts; None: all.
        flags: the other arguments of predict.py.
    """

    runs: tuple[str, ...]
    file: Path
    out: Path
    chunk: int
    part: tuple[int, int] | None
    flags: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The folder of the chunks until OUT is written."""
        return self.out.with_name(f"{self.out.name}.chunks")

    @property
    def title(self) -> str:
        """What this process predicts, in words."""
        return "part {}/{}".format(*self.part) if self.part else "predict"

    @property
    def folders(self) -> list[Path]:
        """The folders that the answers depend on: of the runs, and of blends with their weights."""
        blends = [folder for folder in map(find_run, self.runs) if blended_runs(folder)]
        return [*blends, *find_runs(self.runs)]

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        """The hashes of everything that the answers depend on, by name."""
        return {
            "file": file_hash(self.file),
            "runs": hash_of([describe_run(folder) for folder in self.folders]),
            "flags": hash_of(
                [
                    {name: str(value) for name, value in self.flags.items()},
                    hash_texts(self.flags.get("allowed")),
                ]
            ),
            "code": hash_of([code_hash(PROJECT), file_hash(PROJECT / "predict.py")]),
        }

    @property
    def key(self) -> str:
        """A short hash of all facts; names of chunk files begin with it."""
        return hash_of(self.facts)[:12]

    def own(self, chunks: int) -> range:
        """Return the numbers of the chunks that this process predicts."""
        number, parts = self.part or (1, 1)
        return range((number - 1) * chunks // parts, number * chunks // parts)


def read_note(plan: Plan) -> dict[str, Any]:
    """Return the note of a process with the same key; empty if there was none.

    It has the `records` of the file and the `places` where its chunks begin.
    """
    path = plan.folder / f"{plan.key}.json" if plan.folder.is_dir() else None
    return read_json(path) if path and path.is_file() else {}


def write_note(plan: Plan, note: dict[str, Any]) -> None:
    """Write what is known about the chunks, and the facts that they depend on."""
    write_json(plan.folder / f"{plan.key}.json", {"facts": plan.facts, **note})


def add_flags(parser: ArgumentParser) -> None:
    """Add the flags of this extra."""
    what = "predict the K-th of N parts; the process with the last missing chunk writes OUT"
    parser.add_argument("--part", metavar="K/N", help=what)
    what = f"records predicted together, {CHUNK} unless told: what a kill can lose"
    parser.add_argument("--chunk", default=str(CHUNK), metavar="RECORDS", help=what)


def make_plan(arguments: Namespace) -> Plan:
    """Return the plan from the arguments of predict.py.

    Raises:
        InputError: `--part` or `--chunk` is invalid.
    """
    values = vars(arguments)
    if not re.fullmatch("[1-9][0-9]*", values["chunk"]):
        raise InputError(f"--chunk {values['chunk']} must be a number of records, from 1 on.")
    flags = {name: value for name, value in values.items() if name not in PLACES}
    runs, file, out = tuple(arguments.runs), arguments.file, arguments.out
    return Plan(runs, file, out, int(values["chunk"]), read_part(values["part"]), flags)


def read_part(text: str | None) -> tuple[int, int] | None:
    """Return the part `(3, 16)` of "3/16"; None: all.

    Raises:
        InputError: not a part.
    """
    if text is None:
        return None
    found = re.fullmatch("([0-9]+)/([0-9]+)", text)
    number, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= parts:
        raise InputError(f"--part {text} is not a part: write 3/16 for the third of sixteen parts.")
    return number, parts


def describe_run(folder: Path) -> dict[str, Any]:
    """Return what the answers of a run depend on: its files and its tuned values."""
    manifest = read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    names = {"config.json", "best.weights.h5", "labels.json", "tokenizer.json", *manifest}
    files = [folder / name for name in sorted(names) if (folder / name).is_file()]
    # A fold uses the threshold of its cross-validation.
    tuned = [read_scores(place).get("dev") for place in (folder, folder.parent)]
    config = folder / "config.json"
    table = read_json(config).get("generation", {}) if config.is_file() else {}
    texts = hash_texts(table.get("allowed"), PROJECT)
    return {"files": {f.name: file_hash(f) for f in files}, "tuned": tuned, "texts": texts}


def hash_texts(name: str | None, folder: Path = Path()) -> str:
    """Return the hash of a file of allowed texts; empty: none is named."""
    path = folder / (name or "")
    return file_hash(path) if path.is_file() else ""


def hash_of(value: Any) -> str:
    """Return a hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
