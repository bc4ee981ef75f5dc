"""Bring trained runs back: settings, encoders, weights and tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from tokenizers import Tokenizer

from common.encoder import restore_encoder
from common.files import read_json
from common.prediction import Predictor
from common.run_folder import check_members, find_runs, load_best
from common.settings import saved_settings
from common.strategy import for_prediction, make_strategy
from task.data import Example, SourceGenerator
from task.decode import predict_texts
from task.generation import Writer
from task.model import build_models
from task.settings import Settings
from task.tokens import TargetTokens

# What the members of an ensemble must share besides tokens.
SHARED_SETTINGS = ("max_length", "target_length")


@dataclass(frozen=True)
class TrainedModel:
    """What prediction needs of one run, or of several whose probabilities are averaged."""

    folders: list[Path]
    settings: Settings
    predictor: Predictor
    tokenizer: Tokenizer
    tokens: TargetTokens
    encoder_inputs: list[str]

    def predict(self, examples: Sequence[Example]) -> dict[str, tuple[str, float]]:
        """Return record id -> the text that is written for it, and its score."""
        generator = SourceGenerator(
            examples,
            self.tokenizer,
            self.encoder_inputs,
            self.settings,
            batch_size=self.settings.prediction_batch_size,
        )
        return predict_texts(self.predictor, generator, self.tokenizer, self.tokens, "predict")


def load_runs(
    paths: Sequence[str | Path],
    strategy: tf.distribute.Strategy | None = None,
    changes: dict[str, str | float] | None = None,
) -> TrainedModel:
    """Load runs with their best weights.

    Args:
        paths: folders of runs, or their names in runs/; a cross-validation stands for its folds.
        strategy: where to build them; None: what this machine has.
        changes: settings of generation that differ from those of the first run.

    Raises:
        InputError: no such run, or its files don't fit together, or two runs don't.
    """
    folders = find_runs(paths)
    check_members(folders, SHARED_SETTINGS)
    every = [saved_settings(Settings, read_json(folder / "config.json")) for folder in folders]
    settings = saved_settings(Settings, {**every[0].model_dump(), **(changes or {})})
    tokens = TargetTokens(**read_json(folders[0] / "labels.json"))
    strategy = strategy or make_strategy(for_prediction(settings))
    models, inputs = [], set()
    with strategy.scope():
        for folder, own in zip(folders, every, strict=True):
            encoder, tokenizer = restore_encoder(folder)
            _, inference_model = build_models(encoder, own)
            load_best(inference_model, folder)
            models.append(inference_model)
            inputs |= {tensor.name for tensor in encoder.inputs}
    writer = Writer(models, [own.model for own in every], tokens, settings)
    return TrainedModel(
        folders=folders,
        settings=settings,
        predictor=Predictor([writer], strategy),
        tokenizer=tokenizer,
        tokens=tokens,
        encoder_inputs=sorted(inputs),
    )
