"""Batches of the training examples together with those of further files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import project_path, read_json
from core.base.settings import flatten
from core.base.workers import is_chief
from core.batches import DataGenerator
from core.training import Training
from extras.distillation.teachers import refuse_leak


def with_added_files(training: Training) -> DataGenerator:
    """Return the batches of the training examples and of all `distillation.files`.

    The weight of a record is its own times that of its file.

    Raises:
        InputError: a file is absent or invalid, has labels that the training file lacks, or was
            labelled by a model that learned from records which this training is scored on.
    """
    settings, batches = training.settings, training.batches
    table = settings.distillation
    added: list[Any] = []
    for name, weight in zip(table.files, table.weights or [1.0] * len(table.files), strict=True):
        path = file_of(training, name)
        refuse_leak(path, flatten(run_config(training)))
        examples = batches.read_file(str(path), True)
        refuse_unknown_labels(path, examples, batches)
        if is_chief():
            print(f"{name}: {len(examples)} more records to learn from, of weight {weight:g}")
        added += [replace(example, weight=example.weight * weight) for example in examples]
    return type(batches).of([*batches.examples, *added], *batches.arguments)  # type: ignore[attr-defined]


def file_of(training: Training, name: str) -> Path:
    """Return the file of a name; of a folder that of the fold which is trained.

    Raises:
        InputError: it is a folder, and no fold is trained, or one without a file.
    """
    path, fold = project_path(name), fold_of(training)
    if not path.is_dir():
        return path
    if fold is None:
        raise InputError(
            f"distillation.files names {name}, a folder with a file for each fold of a "
            "cross-validation: name one file, or train with extras/folds/cross_validate.py."
        )
    return path / f"fold_{fold}.jsonl"


def fold_of(training: Training) -> int | None:
    """Return the number of the fold that is trained, from 1; None: no cross-validation."""
    return run_config(training).get("fold")


def run_config(training: Training) -> dict:
    """Return the content of the run's config.json, which may not be written yet."""
    run = training.run
    return run.new_config or read_json(run.folder / "config.json")


def refuse_unknown_labels(path: Path, examples: Sequence[Any], batches: Any) -> None:
    """Refuse labels of a classifier that the training file lacks: they would teach nothing.

    Raises:
        InputError: names the first one.
    """
    names = getattr(getattr(batches, "labels", None), "names", None)
    if names is None or getattr(batches.labels, "are_numbers", False):
        return
    for example in examples:
        own = [label for label, _ in example.probabilities] or example.labels
        for unknown in (label for label in own if label not in names):
            raise InputError(
                f"{path}, line {example.line}: no record of the training file has the label "
                f"{unknown!r}: add one there, or leave this record out."
            )
