"""Start a training from the weights of another run: the second of two stages."""

import os
import warnings
from pathlib import Path

from core.base.errors import InputError
from core.base.files import PROJECT, read_json
from core.base.workers import broadcast, is_chief
from core.runs.checkpoints import UNFINISHED
from core.runs.manifest import load_best
from core.runs.members import members
from core.training import Training


def start_from(training: Training, name: str) -> None:
    """Give the models of a training the weights of a run, unless a checkpoint is restored.

    Layers after the encoder keep their random weights where the run has other labels.

    Raises:
        InputError: there is no such run, or it has other tokens or another model.
    """
    folder = training.run.folder
    if any((folder / unfinished).exists() for unfinished in UNFINISHED):
        return
    source = find_source(name)
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


def find_source(name: str) -> Path:
    """Return the folder of the run that a training starts from.

    Raises:
        InputError: there is none, or the name means several models, as that of a blend.
    """
    source, *others = dict.fromkeys(members(name))
    if others:
        raise InputError(
            f"distillation.init_from = {name} has the weights of several models: name one of them, "
            f"such as {os.path.relpath(source, PROJECT)}."
        )
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
