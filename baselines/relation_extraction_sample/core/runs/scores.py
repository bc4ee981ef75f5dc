"""scores.json of a run."""

from pathlib import Path

from core.base.errors import InputError
from core.base.files import read_json

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
