"""scores.json of a run."""

from pathlib import Path

from core.base.files import read_json


def read_scores(folder: Path) -> dict:
    """Return the scores of a run; empty before the first. `files` has those of other files."""
    path = folder / "scores.json"
    return read_json(path) if path.is_file() else {}
