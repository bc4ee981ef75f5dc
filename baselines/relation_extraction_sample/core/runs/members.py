"""Find trained runs by name, and check that several can predict together."""

import math
from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError
from core.base.files import PROJECT, read_json
from core.base.settings import CoreSettings, flatten, saved_settings
from core.runs.manifest import check_files
from core.runs.scores import read_scores


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """Return the folders of trained runs, by path or name; a cross-validation gives all its folds.

    Raises:
        InputError: a run is named twice.
    """
    found: dict[Path, None] = {}
    for path in paths:
        own = dict.fromkeys(member.resolve() for member in members(path))
        for twice in own.keys() & found.keys():
            raise InputError(f"{twice.name} is named twice: name each run once.")
        found |= own
    return [*found]


def members(path: str | Path) -> list[Path]:
    """Return the folder of a run, or those of the folds of a cross-validation or of a blend.

    Raises:
        InputError: there is no such run, or it has no weights yet.
    """
    folder = find_run(path)
    if runs := blended_runs(folder):
        return [member for run in runs for member in members(run)]
    if folds := fold_folders(folder):
        return folds
    if not (folder / "best.weights.h5").is_file():
        why = "yet: let train.py finish one epoch first"
        if "finished" in read_scores(folder):
            why = "any more: they were deleted, so train it again under another --run_name"
        raise InputError(f"{path} has no weights {why}.")
    return [folder]


def find_run(path: str | Path) -> Path:
    """Return the folder of a run, a cross-validation or a blend, by path or name.

    Raises:
        InputError: there is none.
    """
    places = [Path(path), PROJECT / "runs" / path]  # an encoder here may have the name of a run
    for folder in places[::-1] if str(path) == Path(path).name else places:
        if (folder / "config.json").is_file():
            return folder
    raise InputError(f"{path} is not a run: {known_runs('config.json')}.")


def blended_runs(folder: Path) -> list[Path]:
    """Return the folders of the runs of a blend (extras/blends); empty: the run is none.

    Raises:
        InputError: one of them is gone.
    """
    config = read_json(folder / "config.json")
    runs = [PROJECT / run for run in config.get("blend", {}).get("runs", ())]
    for run in runs:
        if not (run / "config.json").is_file():
            raise InputError(
                f"{folder.name} blends {run.name}, which is gone: restore it, or fit another blend."
            )
    return runs


def fold_folders(folder: Path) -> list[Path]:
    """Return the folders of the folds of a cross-validation; empty: the run is none.

    Raises:
        InputError: some are not finished.
    """
    config = flatten(read_json(folder / "config.json"))
    asked = config.get("folds.count", config.get("folds", 0))  # older runs have a flat key
    wanted = 0 if "fold" in config else asked
    folds = [folder / f"fold_{number}" for number in range(1, wanted + 1)]
    ready = sum("finished" in read_scores(fold) for fold in folds)
    if ready < wanted:
        raise InputError(
            f"{folder.name} has {ready} of {wanted} folds: let the cross-validation finish first."
        )
    return folds


def known_runs(file: str) -> str:
    """Return in words which runs have a file of this name."""
    names = sorted(entry.parent.name for entry in PROJECT.glob(f"runs/*/{file}"))
    return f"runs/ has {', '.join(names)}" if names else "train one with: python train.py"


def check_members(
    folders: Sequence[Path], task_class: type[CoreSettings], names: Sequence[str]
) -> None:
    """Refuse runs of another task, and runs whose labels, tokens or some settings differ.

    Args:
        folders: of the runs.
        task_class: the settings of the task.
        names: as in `check_shared`.

    Raises:
        InputError: names the run, or two and what differs.
    """
    first, *others = folders
    for folder in folders:
        check_files(folder)
        trained = read_json(folder / "config.json").get("task", task_class.task)
        if trained != task_class.task:
            what = f"is a run of another task, {trained}: use the project that trained it"
            raise InputError(f"{folder.name} {what}.")
    for folder in others:
        # The tokens first: labels.json may hold some of them, as those that end a text.
        for file, what in (("tokenizer.json", "tokens"), ("labels.json", "")):
            if (first / file).read_bytes() != (folder / file).read_bytes():
                what = what or ", ".join(read_json(first / file)).replace("_", " ")
                raise InputError(
                    f"{first.name} and {folder.name} have different {what}: only scores of the "
                    "same ones can be averaged, so train both on the same file and encoder."
                )
    check_shared(folders, task_class, names)


def check_shared(
    folders: Sequence[Path], task_class: type[CoreSettings], names: Sequence[str]
) -> None:
    """Refuse runs with different values of some settings.

    Args:
        folders: of the runs.
        task_class: the settings of the task.
        names: of the settings, those of tables with a dot; what no run has is the same for all.

    Raises:
        InputError: names two runs and the setting.
    """
    files = [folder / "config.json" for folder in folders]
    every = [saved_settings(task_class, read_json(file), file).model_dump() for file in files]
    first, *others = map(flatten, every)
    for folder, own in zip(folders[1:], others, strict=True):
        for name in (name for name in names if own.get(name) != first.get(name)):
            raise InputError(
                f"{folders[0].name} has {name} = {first.get(name)!r} and {folder.name} "
                f"{own.get(name)!r}: train both with the same, or predict with one."
            )


def tuned_threshold(folders: Sequence[Path]) -> float:
    """Return the mean of the thresholds of some runs; a fold has that of its cross-validation.

    Raises:
        InputError: a run has none.
    """
    thresholds = []
    for folder in folders:
        # Until all folds are trained, each has only its own.
        is_fold = "fold" in read_json(folder / "config.json")
        path = folder.parent if is_fold and read_scores(folder.parent) else folder
        thresholds.append(read_scores(path).get("dev", {}).get("threshold"))
        if not isinstance(thresholds[-1], int | float) or not math.isfinite(thresholds[-1]):
            raise InputError(f"{path} has no threshold in scores.json: restore it, or train again.")
    return sum(thresholds) / len(thresholds)
