"""Which models labelled a file, and whether a score on other records can still be trusted."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import file_hash, read_json
from core.base.settings import flatten

SUFFIX = ".teachers.json"  # after the name of a file of pseudo-labels


def note_path(path: Path) -> Path:
    """Return the file that says which models labelled a file."""
    return path.with_name(path.name + SUFFIX)


def describe_teacher(folder: Path) -> dict[str, Any]:
    """Return what a run learned from, and the files that chose its weights."""
    config = flatten(read_json(folder / "config.json"))
    names = ("train_hash", "dev_hash", "distillation.files_hash", "fold", "folds.count", "seed")
    cross_validation = [folder.parent.name] * ("fold" in config)
    own = {name: config[name] for name in names if name in config}
    return {"run": "/".join([*cross_validation, folder.name]), **own}


def refuse_leak(path: Path, training: dict[str, Any]) -> None:
    """Refuse pseudo-labels of models that learned from the records which choose the best epoch.

    Such labels carry the gold of these records into the training, and the score is too good.

    Args:
        path: of a file to learn from.
        training: the content of its run's config.json, flat.

    Raises:
        InputError: a teacher learned from the dev file, or from records that this fold holds out.
    """
    note = note_path(path)
    if not note.is_file():
        return
    known = read_json(note)
    if known.get("hash") != file_hash(path):
        raise InputError(
            f"{path} has changed since {note.name} was written: label it anew, or delete "
            f"{note.name} if you know that no teacher learned from the records it is scored on."
        )
    for teacher in known["teachers"]:
        if "fold" in training:
            saw = teacher.get("train_hash") == training["train_hash"] and not holds_out_as(
                teacher, training
            )
            scored = f"fold {training['fold']} holds out"
            way = (
                "label the file with the runs of the folds, each for its own: python "
                "extras/distillation/label.py CROSS_VALIDATION FILE FOLDER"
            )
        else:
            saw = teacher.get("train_hash") == training["dev_hash"]
            scored = "dev_file has"
            way = "take another teacher, or another dev_file"
        if saw:
            raise InputError(
                f"{path} was labelled by {teacher['run']}, which learned from records that "
                f"{scored}: the score would be too good; {way}."
            )


def holds_out_as(teacher: dict[str, Any], training: dict[str, Any]) -> bool:
    """Return whether a teacher never saw the records that the fold in training holds out."""
    same = ("fold", "folds.count", "seed")
    return all(teacher.get(name) == training.get(name) for name in same)


def note_teachers(path: Path, folders: Sequence[Path], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the note beside a file of pseudo-labels.

    Args:
        path: of the file, already written.
        folders: of the runs that labelled it.
        facts: how it was made.
    """
    return {
        "hash": file_hash(path),
        "teachers": [describe_teacher(folder) for folder in folders],
        **facts,
    }


def mean_of(scored: Iterable[Any]) -> dict[Any, float]:
    """Return the mean scores of several teachers, the highest first; what one lacks is 0 there.

    >>> mean_of([{"a": 0.75, "b": 0.5}, [("a", 1.0)]])
    {'a': 0.875, 'b': 0.25}
    """
    every = [dict(one) for one in scored]
    means = {name: 0.0 for own in every for name in own}
    for name in means:
        means[name] = sum(own.get(name, 0.0) for own in every) / len(every)
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))
