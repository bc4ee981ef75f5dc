"""scores.json of a run."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from core.base.errors import InputError
from core.base.files import read_json, write_json
from core.base.workers import is_chief

KINDS = {"dev": dict, "files": dict, "monitor": str, "chose_nothing": str}


def read_scores(folder: Path) -> dict:
    """Return the scores of a run; empty before the first. `files` has those of other files.

    Raises:
        InputError: the file is damaged.
    """
    path = folder / "scores.json"
    scores = read_json(path) if path.is_file() else {}
    for name, kind in KINDS.items():
        if not isinstance(scores.get(name, kind()), kind):
            raise InputError(f'{path}: "{name}" is not what a training writes: restore the file.')
    return scores


def change_scores(folder: Path, change: Callable[[dict], dict]) -> None:
    """Replace the scores of a run by what a function makes of them; processes take turns.

    So an evaluation loses nothing of another one, nor of a training that goes on.

    Raises:
        InputError: the file is damaged.
    """
    if not is_chief():
        return
    lock = FileLock(folder / ".scores-lock")
    with contextlib.suppress(OSError, NotImplementedError):  # some file systems have no locks
        lock.acquire()
    try:
        write_json(folder / "scores.json", change(read_scores(folder)))
    finally:
        lock.release()
