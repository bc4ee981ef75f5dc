"""Batches of the training examples together with those of further files."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import project_path, read_json
from core.base.settings import flatten
from core.base.workers import is_chief
from core.batches import DataGenerator
from core.training import Training
from extras.distillation.teachers import note_path, refuse_gold, refuse_leak


def with_added_files(training: Training, teachers: list[dict]) -> DataGenerator:
    """Return the batches of the training examples and of all `distillation.files`.

    The weight of a record is its own times that of its file.

    Args:
        training: gets them.
        teachers: gets the models that labelled the files.

    Raises:
        InputError: a file is absent or invalid, has labels that the training file lacks, or was
            labelled by a model that learned from records which this training is scored on.
    """
    settings = training.settings
    batches: Any = training.batches  # of a task, which reads files
    table = settings.distillation
    added: list[Any] = []
    if len({project_path(name).resolve() for name in table.files}) < len(table.files):
        raise InputError("distillation.files names a file twice: name each once.")
    for name, weight in zip(table.files, table.weights or [1.0] * len(table.files), strict=True):
        path, config = file_of(training, name), flatten(run_config(training))
        teachers += refuse_leak(path, config)
        examples = batches.read_file(str(path), True)
        if not note_path(path).is_file():
            refuse_gold(path, examples, training.scorer.batches.examples, config)
        refuse_unknown_labels(path, examples, batches)
        if is_chief():
            print(f"{name}: {len(examples)} more records to learn from, of weight {weight:g}")
        added += [weighed(example, weight, name) for example in examples]
    return type(batches).of([*batches.examples, *added], *batches.arguments)


def weighed(example: Any, weight: float, name: str) -> Any:
    """Return an example of a file of some name with another weight, and a group of this file.

    Two files may number their groups alike, and what is in both is learned twice.
    """
    group = getattr(example, "group", None)
    own = {} if group is None else {"group": f"{name}\n{group}"}
    return replace(example, weight=example.weight * weight, **own)


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
    """Refuse labels, types or predicates that the training file lacks: they would teach nothing.

    Raises:
        InputError: names the first one.
    """
    what, names = known_names(batches)
    for example in examples if names else ():
        for unknown in (name for name in names_in(example) if name not in names):
            raise InputError(
                f"{path}, line {example.line}: no record of the training file has the {what} "
                f"{unknown!r}: add one there, or leave it out."
            )


def known_names(batches: Any) -> tuple[str, Collection[str]]:
    """Return what a model tells apart, and its names; none: texts, answers or numbers."""
    labels: Any = getattr(batches, "labels", None)
    if names := getattr(labels, "names", None):
        return "label", () if labels.are_numbers else names
    if schema := getattr(batches, "schema", None):
        return "type", schema.types
    for attribute, what in (("predicates", "predicate"), ("types", "type")):
        if names := getattr(batches, attribute, None):
            return what, names
    return "", ()


def names_in(example: Any) -> Iterator[str]:
    """Yield the labels, types or predicates of an example."""
    yield from dict.fromkeys(label for label, _ in getattr(example, "probabilities", ()))
    yield from getattr(example, "labels", ())
    yield from (triple.predicate for triple in getattr(example, "triples", ()))
    items = (*getattr(example, "entities", ()), *getattr(example, "events", ()))
    yield from (item.type for item in items)
