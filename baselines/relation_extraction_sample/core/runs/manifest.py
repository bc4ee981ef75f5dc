"""The hashes of a run's files, so that no damaged or swapped file is loaded."""

from pathlib import Path

import keras

from core.base.errors import InputError
from core.base.files import MANIFEST, file_hash, read_json, write_json


def note_files(folder: Path, *names: str, stay: bool = True) -> None:
    """Write the hashes of a run's files into its manifest.

    `stay` is False for files that are about to change: they have no hash meanwhile.
    """
    path = folder / MANIFEST
    known = read_json(path) if path.is_file() else {}
    found = [name for name in names if not stay or (folder / name).is_file()]
    write_json(path, known | {n: file_hash(folder / n) if stay else "" for n in found})


def check_files(folder: Path) -> None:
    """Refuse a run whose files are not those that its training wrote; older runs have no hashes.

    Raises:
        InputError: names the file.
    """
    path = folder / MANIFEST
    for name, known in (read_json(path) if path.is_file() else {}).items():
        if known and (not (folder / name).is_file() or file_hash(folder / name) != known):
            what = "is missing, damaged or swapped: restore it, or train again"
            raise InputError(f"{folder / name} {what}.")


def weights_hash(folder: Path) -> str:
    """Return the hash of a run's best weights; empty: none is written yet, or the run is older."""
    path = folder / MANIFEST
    return read_json(path).get("best.weights.h5", "") if path.is_file() else ""


def load_best(model: keras.Model, folder: Path) -> None:
    """Load the best weights of a run.

    Raises:
        InputError: they are damaged, or of a model of another shape.
    """
    path = folder / "best.weights.h5"
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} does not fit the model, or is damaged: restore the code and the settings it "
            "was trained with, or train again."
        ) from error
