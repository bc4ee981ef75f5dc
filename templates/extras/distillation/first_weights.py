"""Start a training from the weights of another run: the second of two stages."""

import os
import warnings
from pathlib import Path

from core.base.errors import InputError
from core.base.files import PROJECT, read_json
from core.base.settings import flatten
from core.base.workers import broadcast, is_chief
from core.runs.checkpoints import UNFINISHED
from core.runs.manifest import load_best
from core.runs.members import find_run, fold_folders, members
from core.training import Training
from extras.distillation.added_files import fold_of, run_config
from extras.distillation.teachers import describe_teacher, refuse_teacher


def start_from(training: Training, source: Path) -> None:
    """Give the models of a training the weights of a run, unless a checkpoint is restored.

    Layers after the encoder keep their random weights where the run has other labels.

    Raises:
        InputError: it has other tokens or another model.
    """
    folder, name = training.run.folder, training.settings.distillation.init_from
    if any((folder / unfinished).exists() for unfinished in UNFINISHED):
        return
    # The other workers of a cluster have no files of their own, and do as the chief does.
    files = ("tokenizer.json", "labels.json")
    tokens, labels = broadcast([read_json(folder / f) for f in files] if is_chief() else None)
    if tokens != read_json(source / "tokenizer.json"):
        raise InputError(
            f"distillation.init_from = {name} reads other tokens: set encoder to the one that it "
            "was trained with; tiny learns its own from train_file, so name the same file."
        )
    same_labels = labels == read_json(source / "labels.json")
    if same_labels:
        load_best(training.models.inference, source)
    else:
        copy_encoder(source, training)
    if is_chief():
        what = "" if same_labels else ", but for the head, because the labels are others"
        print(f"the training starts from the weights of {name}{what}")


def find_source(training: Training, name: str) -> Path:
    """Return the folder of the run that a training starts from.

    A fold of a cross-validation starts from the same fold of another one.

    Raises:
        InputError: there is none, the name means several models, as that of a blend, or the run
            learned from records that this training is scored on.
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
    what = f"distillation.init_from = {name} starts from {source.name}"
    way = "name a cross-validation with the same folds: each fold then starts from its own"
    refuse_teacher(describe_teacher(source), flatten(run_config(training)), what, way)
    return source


def copy_encoder(source: Path, training: Training) -> None:
    """Give the encoder of a training the weights of that of a run; the other layers keep theirs.

    Raises:
        InputError: it has another encoder.
    """
    if architecture(source) != architecture(training.run.folder):
        raise InputError(
            f"distillation.init_from = {source.name} has another encoder: set encoder, and what "
            "belongs to it, to that of this run."
        )
    model = training.models.inference
    own = {id(weight) for weight in training.models.encoder.weights}
    others = [(weight, weight.numpy()) for weight in model.weights if id(weight) not in own]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers whose shapes follow the labels
        model.load_weights(source / "best.weights.h5", skip_mismatch=True)
    for weight, value in others:
        weight.assign(value)


def architecture(run: Path) -> dict:
    """Return what decides the weights of the encoder of a run: all but its dropout."""
    config = broadcast(read_json(run / "encoder.json") if is_chief() else None)["config"]
    return {name: value for name, value in config.items() if "dropout" not in name}
