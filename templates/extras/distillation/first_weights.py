"""Start a training from the weights of another run: the second of two stages."""

import keras

from core.base.errors import InputError
from core.base.files import read_json
from core.base.workers import broadcast, is_chief
from core.runs.checkpoints import UNFINISHED
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
    policy = keras.config.dtype_policy()
    runs = load_runs([name], training.strategy)
    keras.config.set_dtype_policy(policy)  # `load_runs` takes that of the run
    if len(runs.models) > 1:
        raise InputError(
            f"distillation.init_from = {name} is a cross-validation: name one of its folds, such "
            f"as {name}/fold_1."
        )
    # The other workers of a cluster have no files of their own, and do as the chief does.
    files = ("tokenizer.json", "labels.json")
    tokens, labels = broadcast([read_json(folder / f) for f in files] if is_chief() else None)
    if tokens != read_json(runs.folders[0] / "tokenizer.json"):
        raise InputError(
            f"distillation.init_from = {name} reads other tokens: set encoder to the one that it "
            "was trained with; tiny learns its own from train_file, so name the same file."
        )
    same_labels = labels == runs.labels
    copy_weights(runs.models[0], training.models.inference, training.models.encoder, same_labels)
    if is_chief():
        what = "" if same_labels else ", but for the head, because the labels are others"
        print(f"the training starts from the weights of {name}{what}")


def copy_weights(
    source: keras.Model, target: keras.Model, encoder: keras.Model, with_head: bool
) -> None:
    """Give a model the weights of another that the same code has built.

    Args:
        source: the trained model.
        target: the model to train.
        encoder: of the target.
        with_head: also copy the layers that are not in the encoder.

    Raises:
        InputError: the models have other layers.
    """
    pairs = [*zip(source.layers, target.layers, strict=False)]
    fits = len(source.layers) == len(target.layers) and all(
        type(one) is type(other) and (other is not encoder or shapes(one) == shapes(other))
        for one, other in pairs
    )
    if not fits:
        raise InputError(
            "distillation.init_from names a run of another model: give this training the settings "
            "of its encoder and head."
        )
    for one, other in pairs:
        if other is encoder or with_head and shapes(one) == shapes(other):
            other.set_weights(one.get_weights())


def shapes(layer: keras.layers.Layer) -> list[tuple]:
    """Return the shapes of all weights of a layer."""
    return [tuple(weight.shape) for weight in layer.weights]
