"""Bring a trained run back: settings, encoder, weights and tokens."""

from dataclasses import dataclass
from pathlib import Path

import keras
from tokenizers import Tokenizer

from common.encoder import restore_encoder
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import find_runs, load_best
from common.settings import saved_settings
from common.strategy import for_prediction, make_strategy
from task.model import LanguageModel, build_models
from task.settings import Settings


@dataclass(frozen=True)
class TrainedModel:
    """What scoring and exporting need of a run."""

    folder: Path
    settings: Settings
    model: keras.Model
    predictor: Predictor
    tokenizer: Tokenizer

    @property
    def language_model(self) -> LanguageModel:
        """The encoder and its head."""
        return self.model.get_layer("language_model")


def load_run(path: str | Path) -> TrainedModel:
    """Load a run with its best weights.

    Args:
        path: folder of a run, or its name in runs/.

    Raises:
        InputError: no such run, or its files don't fit together.
    """
    [folder] = find_runs([path])
    settings = saved_settings(Settings, read_json(folder / "config.json"))
    strategy = make_strategy(for_prediction(settings))
    with strategy.scope():
        encoder, tokenizer = restore_encoder(folder)
        _, model = build_models(encoder, settings)
        load_best(model, folder)
    return TrainedModel(folder, settings, model, Predictor([model], strategy), tokenizer)
