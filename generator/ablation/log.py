"""The log of the ablation: one line per training, appended by one or several processes."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from generator import InputError
from generator.files import json_lines

RESULTS = Path("benchmarks") / "results"
# Besides their settings, two trainings must share these to be compared.
CONDITIONS = ("code_hash", "baseline_settings", "data", "encoder", "encoder_weights")

# Names in the log of version 0.1.0 -> names of the settings today.
RENAMED = {
    "optimizer": "optimizers.kind",
    **{
        name: f"optimizers.{name}"
        for name in (
            *("layer_decay", "schedule", "schedule_power", "schedule_points", "no_decay"),
            *("no_adaptation", "lazy_embeddings", "lookahead"),
        )
    },
    **{
        name: f"regularization.{name}"
        for name in (
            "adversary",
            "adversary_size",
            "gradient_penalty",
            "r_drop",
            "virtual_adversary",
        )
    },
    "ema": "averaging.ema",
    "soup": "averaging.soup",
    "recompute": "recompute.enabled",
}


def log_path(root: Path) -> Path:
    """Return the log of a repository."""
    return root / RESULTS / "ablation.jsonl"


def read_rows(root: Path) -> list[dict]:
    """Return the lines of the log, oldest first, with today's names of settings.

    Raises:
        InputError: a line is not JSON.
    """
    path = log_path(root)
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if line:
            try:
                row = json.loads(line.decode("utf-8"))
                named = row["settings"].items()
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{path}, line {number} is not JSON ({error}): correct or remove that line."
                ) from error
            except (KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{path}, line {number} is no row of the log: correct or remove that line."
                ) from error
            settings = {RENAMED.get(name, name): value for name, value in named}
            rows.append({**row, "settings": settings})
    return rows


def append_row(root: Path, row: dict) -> None:
    """Append a line in one write, because other processes may append too."""
    with locked_log(root) as descriptor:
        os.write(descriptor, json_lines([row]))
        os.fsync(descriptor)


@contextlib.contextmanager
def locked_log(root: Path) -> Iterator[int]:
    """Lock the log, and the files written from it, against other processes."""
    path = log_path(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait: bool = True) -> bool:
    """Lock an open file until it is closed, here and in the processes that inherit it.

    Args:
        descriptor: of the file.
        wait: until others release it; otherwise return whether it was free.

    Raises:
        InputError: this system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise InputError("`baselines ablate` locks its files: run it on Linux or macOS.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def conditions(row: dict) -> str:
    """Return the fields that rows must share to be compared."""
    return json.dumps([row.get(name) for name in CONDITIONS], sort_keys=True)


def training_key(row: dict) -> tuple:
    """Return the key that identifies one training."""
    settings = json.dumps(row["settings"], sort_keys=True)
    return row["study"], row["variant"], row["seed"], settings, conditions(row)


def is_final(row: dict) -> bool:
    """Return whether a training is final: scored, or diverged, which would happen again."""
    return not row["failure"] or row["diverged"]
