"""Start a training from the weights of another run: the second of two stages."""

from pathlib import Path

import keras

from core.base.errors import InputError
from core.base.files import read_json
from core.base.workers import broadcast, is_chief
from core.runs.checkpoints import UNFINISHED
from core.runs.manifest import load_best
from core.runs.members import find_runs
from core.training import Training
from task.prediction import load_runs


def start_from(training: Training, name: str) -> None:
    """Give the models of a training the weights of a run, unless a checkpoint is restored.

    Layers after the encoder keep their random weights where the run has other labels.

    Raises:
        InputError: there is no such run, or it has other tokens or another model.
    """
    folder = training.run.folder
    if any((folder / unfinished).exists() for unfinished in UNFINISHED):
        return
    [source, *others] = find_runs([name])
    if others:
        raise InputError(
            f"distillation.init_from = {name} is a cross-validation: name one of its folds, such "
            f"as {name}/fold_1."
        )
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


def copy_encoder(source: Path, training: Training) -> None:
    """Give the encoder of a training the weights of that of a run.

    Raises:
        InputError: it has another encoder.
    """
    policy = keras.config.dtype_policy()
    [trained] = load_runs([source], training.strategy).models
    keras.config.set_dtype_policy(policy)  # `load_runs` takes that of the run
    own = {id(weight) for weight in training.models.encoder.weights}
    pairs = zip(trained.weights, training.models.inference.weights, strict=False)
    encoder = [(found, weight) for found, weight in pairs if id(weight) in own]
    if len(encoder) < len(own) or any(found.shape != weight.shape for found, weight in encoder):
        raise InputError(
            f"distillation.init_from = {source.name} has another encoder: set encoder, and what "
            "belongs to it, to that of this run."
        )
    for found, weight in encoder:
        weight.assign(found)
