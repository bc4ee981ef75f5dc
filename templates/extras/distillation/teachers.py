"""Which models labelled a file, and whether a score on other records can still be trusted."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import delete, file_hash, project_path, read_json, write_json
from core.base.settings import flatten
from core.base.workers import is_chief
from core.data.checks import normalise
from core.runs.checkpoints import UNFINISHED

SUFFIX = ".teachers.json"  # after the name of a file of pseudo-labels
# File in a run's folder: the runs whose labels or weights it learned from, and theirs in turn.
ANCESTORS = "teachers.json"
TEXTS = ("text", "context", "text_a", "text_b", "question", "source")
# What decides, besides the training file, which records a fold holds out.
OF_COLUMNS = (
    *("text_column", "pair_column", "text_columns", "text_template", "choice_columns"),
    *("group_column", "fold_group_column", "label_column", "target_columns"),
)
OF_FOLDS = (
    *("fold", "folds.count", "seed", "output"),
    *(f"competition.{name}" for name in OF_COLUMNS),
)


def note_path(path: Path) -> Path:
    """Return the file that says which models labelled a file."""
    return path.with_name(path.name + SUFFIX)


def goes_on(training: Any) -> bool:
    """Return whether a training was interrupted, and restores its own weights."""
    there = any((training.run.folder / name).exists() for name in UNFINISHED)
    return there and training.run.new_config is None


def keep_teachers(training: Any, teachers: Sequence[dict[str, Any]]) -> None:
    """Write the models that a training learns from into its run, unless it goes on."""
    path = training.run.folder / ANCESTORS
    if is_chief() and not goes_on(training):
        delete(path)
        if teachers:
            write_json(path, {"teachers": list(teachers)})


def with_ancestors(teacher: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a teacher and those from which it learned, each described by itself."""
    own = {name: value for name, value in teacher.items() if name != "ancestors"}
    return [own, *teacher.get("ancestors", ())]


def describe_teacher(folder: Path) -> dict[str, Any]:
    """Return what a run and its teachers learned from, and the files that chose its weights."""
    config = flatten(read_json(folder / "config.json"))
    names = ("train_hash", "dev_hash", "distillation.files_hash", *OF_FOLDS)
    cross_validation = [folder.parent.name] * ("fold" in config)
    own = {name: config[name] for name in names if name in config}
    files = map(project_path, config.get("distillation.files", ()))
    added = [file_hash(path) for path in files if path.is_file()]
    before = folder / ANCESTORS
    return {
        "run": "/".join([*cross_validation, folder.name]),
        **own,
        "added_hashes": added,
        "ancestors": read_json(before)["teachers"] if before.is_file() else [],
    }


def refuse_leak(path: Path, training: dict[str, Any]) -> list[dict[str, Any]]:
    """Refuse pseudo-labels of models that learned from the records which choose the best epoch.

    Such labels carry the gold of these records into the training, and the score is too good.

    Args:
        path: of a file to learn from.
        training: the content of its run's config.json, flat.

    Returns:
        The teachers, and theirs.

    Raises:
        InputError: a teacher learned from the dev file, or from records that this fold holds out.
    """
    note = note_path(path)
    if not note.is_file():
        return []
    known = read_json(note)
    if known.get("hash") != file_hash(path):
        raise InputError(
            f"{path} has changed since {note.name} was written: label it anew, or delete "
            f"{note.name} if you know that no teacher learned from the records it is scored on."
        )
    way = (
        "label the file with the runs of the folds, each for its own: python "
        "extras/distillation/label.py CROSS_VALIDATION FILE FOLDER"
    )
    for teacher in known["teachers"]:
        refuse_teacher(teacher, training, f"{path} was labelled by {teacher['run']}", way)
    return [one for teacher in known["teachers"] for one in with_ancestors(teacher)]


def refuse_teacher(
    teacher: dict[str, Any], training: dict[str, Any], what: str, way_of_folds: str
) -> None:
    """Refuse a run that learned from the records which choose the best epoch of a training.

    Args:
        teacher: from `describe_teacher`.
        training: the content of the config.json of a training, flat.
        what: the training takes from the run.
        way_of_folds: what to do about it in a cross-validation.

    Raises:
        InputError: the run learned from the dev file, or from records that this fold holds out.
    """
    for number, ancestor in enumerate(with_ancestors(teacher)):
        own = f", which learned from {ancestor['run']}" if number else ""
        refuse_one(ancestor, training, f"{what}{own}", way_of_folds)


def refuse_one(
    teacher: dict[str, Any], training: dict[str, Any], what: str, way_of_folds: str
) -> None:
    """Do the work of `refuse_teacher` for one run, without those that it learned from."""
    added = teacher.get("added_hashes", ())
    if "fold" in training:
        learned = teacher.get("train_hash") == training["train_hash"]
        saw = learned and not holds_out_as(teacher, training) or training["train_hash"] in added
        scored, way = f"fold {training['fold']} holds out", way_of_folds
    else:
        saw = training["dev_hash"] in (teacher.get("train_hash"), *added)
        scored, way = "dev_file has", "take another run, or another dev_file"
    if saw:
        raise InputError(
            f"{what}, which learned from records that {scored}: the score would be too good; {way}."
        )


def holds_out_as(teacher: dict[str, Any], training: dict[str, Any]) -> bool:
    """Return whether a teacher never saw the records that the fold in training holds out."""
    # What a note of before lacks is not compared.
    same = [name for name in OF_FOLDS if name in teacher or not name.startswith("competition")]
    return all(teacher.get(name) == training.get(name) for name in same)


def refuse_gold(
    path: Path, examples: Sequence[Any], scored: Sequence[Any], training: dict[str, Any]
) -> None:
    """Refuse a file of gold with the records that choose the best epoch; warn of some of them.

    Args:
        path: of the file, which no model has labelled.
        examples: of the file.
        scored: the examples of dev, or those that the fold holds out.
        training: the content of its run's config.json, flat.

    Raises:
        InputError: half of the scored records, or more, are in the file.
    """
    known = {*map(text_key, examples)}
    shared = sum(text_key(example) in known for example in scored)
    if not shared:
        return
    where = f"fold {training['fold']} holds out" if "fold" in training else "dev_file has"
    said = f"{path} has {shared} of the {len(scored)} records that {where}"
    if 2 * shared >= len(scored):
        raise InputError(f"{said}: the score would be too good; leave these records out.")
    print(f"warning: {said}: if they are no chance, the score is too good: leave them out.")


def text_key(example: Any) -> tuple[str, ...]:
    """Return the texts of an example without differences of case, blanks and Unicode form."""
    texts = (getattr(example, name, None) for name in TEXTS)
    parts = (text if isinstance(text, str) else " ".join(text) for text in texts if text)
    return tuple(map(normalise, parts))


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
