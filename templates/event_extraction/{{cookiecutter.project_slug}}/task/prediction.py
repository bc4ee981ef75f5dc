"""Load trained runs, and predict the events of examples with one of them or several."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from core.data.records import Id
from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from library.graph import Graph
from task.data import EventGenerator
from task.decode import make_selector, predict_events
from task.model import build_models
from task.records import Example, Schema
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "model")


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    runs = load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy)
    schema = Schema(runs.labels["types"])
    return replace(runs, select=make_selector(schema, runs.settings.model))


def rebuild_models(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder and its labels.json."""
    return build_models(encoder, Schema(labels["types"]), settings)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> dict[Id, Graph]:
    """Return the graph of every example, as `predict_events` does."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    settings, schema = runs.settings, Schema(runs.labels["types"])
    encoding = (runs.tokenizer, schema, runs.encoder_inputs, settings)
    batches = EventGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_events(runs.predictor, batches, keep_all=True, progress="predict")
