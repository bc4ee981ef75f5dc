"""Bring trained runs back: settings, encoders, weights and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer

from common.encoder import restore_encoder
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import check_members, find_runs, load_best
from common.settings import saved_settings
from common.strategy import for_prediction, make_strategy
from task.data import Example, Labels, make_generator
from task.decode import predict_probabilities
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "positive_label")


@dataclass(frozen=True)
class TrainedModel:
    """What prediction needs of one run, or of several whose probabilities are averaged."""

    folders: list[Path]
    settings: Settings
    predictor: Predictor
    labels: Labels
    tokenizer: Tokenizer
    inputs: list[str]

    def predict(self, examples: list[Example], progress: str = "") -> dict[str, np.ndarray]:
        """Return the probabilities of every example, as `predict_probabilities` does."""
        generator = make_generator(
            examples,
            self.settings,
            self.tokenizer,
            self.labels,
            self.inputs,
            batch_size=self.settings.prediction_batch_size,
            with_labels=False,
        )
        return predict_probabilities(self.predictor, generator, progress)


def load_runs(
    paths: Sequence[str | Path], strategy: tf.distribute.Strategy | None = None
) -> TrainedModel:
    """Load runs with their best weights.

    Args:
        paths: folders of runs, or their names in runs/; a cross-validation stands for its folds.
        strategy: where to build them; None: what this machine has.

    Raises:
        InputError: no such run, or its files don't fit together, or two runs don't.
    """
    folders = find_runs(paths)
    check_members(folders, SHARED_SETTINGS)
    every = [saved_settings(Settings, read_json(folder / "config.json")) for folder in folders]
    settings = every[0]
    labels = read_labels(folders[0])
    strategy = strategy or make_strategy(for_prediction(settings))
    models = []
    with strategy.scope():
        for folder, own in zip(folders, every, strict=True):
            encoder, tokenizer = restore_encoder(folder)
            _, inference_model = build_models(encoder, labels, own)
            load_best(inference_model, folder)
            models.append(inference_model)
    return TrainedModel(
        folders=folders,
        settings=settings,
        predictor=Predictor(models, strategy),
        labels=labels,
        tokenizer=tokenizer,
        inputs=sorted({tensor.name for model in models for tensor in model.inputs}),
    )


def read_labels(folder: Path) -> Labels:
    """Return the labels of a run."""
    values = read_json(folder / "labels.json")
    return Labels(**{**values, "names": tuple(values["names"]), "counts": tuple(values["counts"])})
