"""Bring trained runs back: settings, encoders, weights, event types and threshold."""

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
from task.data import Example, Schema, make_generator, schema_from_dict
from task.decode import predict_events
from task.graph import Graph
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "model")


@dataclass(frozen=True)
class TrainedModel:
    """What prediction needs of one run, or of several whose scores are averaged."""

    folders: list[Path]
    settings: Settings
    predictor: Predictor
    schema: Schema
    tokenizer: Tokenizer
    encoder_inputs: list[str]

    def predict(self, examples: list[Example], progress: str = "") -> dict[str, Graph]:
        """Return the candidates of every example, as `predict_events` does."""
        generator = make_generator(
            examples,
            self.settings,
            self.tokenizer,
            self.schema,
            self.encoder_inputs,
            batch_size=self.settings.prediction_batch_size,
            labels=False,
        )
        return predict_events(self.predictor, generator, progress)


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
    schema = schema_from_dict(read_json(folders[0] / "labels.json"))
    strategy = strategy or make_strategy(for_prediction(settings))
    models, inputs = [], set()
    with strategy.scope():
        for folder, own in zip(folders, every, strict=True):
            encoder, tokenizer = restore_encoder(folder)
            _, inference_model = build_models(encoder, schema, own)
            load_best(inference_model, folder)
            models.append(inference_model)
            inputs |= {tensor.name for tensor in encoder.inputs}
    return TrainedModel(
        folders=folders,
        settings=settings,
        predictor=Predictor(models, strategy),
        schema=schema,
        tokenizer=tokenizer,
        encoder_inputs=sorted(inputs),
    )
