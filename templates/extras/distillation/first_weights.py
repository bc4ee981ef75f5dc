"""Start a training from the weights of another run: the second of two stages."""

import os
import warnings
from pathlib import Path

import numpy as np

from core.base.errors import InputError
from core.base.files import MANIFEST, PROJECT, delete, read_json
from core.base.settings import flatten
from core.base.workers import broadcast, is_chief
from core.runs.manifest import check_files, load_best
from core.runs.members import find_run, fold_folders, members
from core.training import Training
from extras.distillation.added_files import fold_of, run_config
from extras.distillation.teachers import (
    describe_teacher,
    goes_on,
    refuse_teacher,
    with_ancestors,
)

# What a run has before its weights.
BEGUN = ("config.json", "encoder.json", "tokenizer.json", "labels.json", MANIFEST)


def start_from(training: Training, source: Path) -> None:
    """Give the models of a training the weights of a run, unless a checkpoint is restored.

    Layers after the encoder keep their random weights where the run has other labels.

    Raises:
        InputError: it has other tokens or another model; the run, or the cross-validation of its
            first fold, is then as if it was not begun.
    """
    if goes_on(training):
        return
    number = fold_of(training)
    try:
        take_over(training, source)
    except InputError:
        for name in BEGUN:
            delete(training.run.folder / name)
        if number == 1:
            delete(training.run.folder.parent / BEGUN[0])
        raise


def take_over(training: Training, source: Path) -> None:
    """Do the work of `start_from`."""
    folder, name = training.run.folder, training.settings.distillation.init_from
    # The other workers of a cluster have no files of their own, and do as the chief does.
    files = ("tokenizer.json", "labels.json")
    tokens, labels = broadcast([read_json(folder / f) for f in files] if is_chief() else None)
    if tokens != read_json(source / "tokenizer.json"):
        raise InputError(
            f"distillation.init_from = {name} reads other tokens: set encoder to the one that it "
            "was trained with; tiny learns its own from train_file, so name the same file."
        )
    task = training.settings.task
    same_labels = labels == read_json(source / "labels.json")
    same_labels &= read_json(source / "config.json").get("task", task) == task
    if same_labels:
        load_all(source, training)
    else:
        copy_encoder(source, training)
    if is_chief():
        what = "" if same_labels else ", but for the head, because the labels are others"
        print(f"the training starts from the weights of {name}{what}")


def find_source(training: Training, name: str, teachers: list[dict]) -> Path:
    """Return the folder of the run that a training starts from.

    A fold of a cross-validation starts from the same fold of another one.

    Args:
        training: that starts.
        name: of the run.
        teachers: gets what it learned from.

    Raises:
        InputError: there is none, the name means several models, as that of a blend, the run is
            this one, has updates of weights only, or learned from records that this training is
            scored on.
    """
    source, *others = dict.fromkeys(members(name))
    number = fold_of(training)
    if others and number is not None and fold_folders(find_run(name)):
        source, others = [source, *others][min(number, len(others) + 1) - 1], []
    if others:
        raise InputError(
            f"distillation.init_from = {name} has the weights of several models: name one of them, "
            f"such as {os.path.relpath(source, PROJECT)}."
        )
    own = training.run.folder.resolve()
    if own in (source.resolve(), *source.resolve().parents):
        raise InputError(
            f"distillation.init_from = {name} is the run that is trained: give this training "
            "another --run_name."
        )
    check_files(source)
    config = flatten(read_json(source / "config.json"))
    if config.get("lora.rank") or config.get("used_rows.enabled"):
        raise InputError(
            f"distillation.init_from = {name} was trained with lora or used_rows, and its file "
            "does not hold all weights of the encoder: export it with python "
            f"extras/export/export.py {name} DIR, and set encoder to DIR/encoder."
        )
    what = f"distillation.init_from = {name} starts from {source.name}"
    way = "name a cross-validation with the same folds: each fold then starts from its own"
    teacher = describe_teacher(source)
    refuse_teacher(teacher, flatten(run_config(training)), what, way)
    teachers += with_ancestors(teacher)
    return source


def load_all(source: Path, training: Training) -> None:
    """Give the model of a training all weights of a run.

    Raises:
        InputError: the run has a model of another shape.
    """
    try:
        load_best(training.models.inference, source)
    except InputError as error:
        raise InputError(
            f"distillation.init_from = {source.name} has a model of another shape: set what shapes "
            "it, such as the head and the last layers, as its config.json says."
        ) from error


def copy_encoder(source: Path, training: Training) -> None:
    """Give the encoder of a training the weights of that of a run; the other layers keep theirs.

    Raises:
        InputError: it has another encoder, or has it in another place of its model.
    """
    if architecture(source) != architecture(training.run.folder):
        raise InputError(
            f"distillation.init_from = {source.name} has another encoder: set encoder, and what "
            "belongs to it, to that of this run."
        )
    model, encoder = training.models.inference, training.models.encoder
    own = {id(weight) for weight in encoder.weights}
    others = [(weight, weight.numpy()) for weight in model.weights if id(weight) not in own]
    numbers = [weight for weight in encoder.weights if "float" in weight.dtype]
    for weight in numbers:  # Keras does not say which weights it has found.
        weight.assign(np.full(weight.shape, np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers whose shapes follow the labels
        model.load_weights(source / "best.weights.h5", skip_mismatch=True)
    for weight, value in others:
        weight.assign(value)
    if any(np.isnan(weight.numpy()).any() for weight in numbers):
        raise InputError(
            f"distillation.init_from = {source.name} has its encoder in another place of its model:"
            f" export it with python extras/export/export.py {source.name} DIR, and set encoder to "
            "DIR/encoder."
        )


def architecture(run: Path) -> dict:
    """Return what decides the weights of the encoder of a run: all but its dropout."""
    config = broadcast(read_json(run / "encoder.json") if is_chief() else None)["config"]
    return {name: value for name, value in config.items() if "dropout" not in name}
