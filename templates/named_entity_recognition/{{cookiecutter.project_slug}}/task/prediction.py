"""Load trained runs, and predict the entities of examples with one of them or several."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from task.data import EntityGenerator
from task.decode import Candidates, make_selector, predict_entities
from task.model import build_models
from task.records import Example, Schema
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "tagger")


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    runs = load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy)
    return replace(runs, select=make_selector(runs.settings.tagger))


def rebuild_models(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder and its labels.json."""
    return build_models(encoder, len(labels["types"]), settings)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the candidates of every example, as `predict_entities` does."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    settings, schema = runs.settings, Schema(**runs.labels)
    encoding = (runs.tokenizer, schema.types, runs.encoder_inputs, settings)
    batches = EntityGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_entities(runs.predictor, batches, schema.flat, keep_all=True, progress="predict")
