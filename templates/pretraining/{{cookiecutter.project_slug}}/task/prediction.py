"""Load a trained run, which predicts the hidden tokens of texts."""

from pathlib import Path

import keras

from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from task.model import build_models
from task.settings import Settings


def load_run(path: str | Path) -> TrainedRuns:
    """Load a run with its best weights.

    Args:
        path: folder of a run, or its name in runs/.

    Raises:
        InputError: no such run, or its files don't fit together.
    """
    return load_trained([path], Settings, (), rebuild_models)


def rebuild_models(encoder: keras.Model, labels: None, settings: Settings) -> Models:
    """Return the models of a run, from its encoder."""
    return build_models(encoder, settings)
