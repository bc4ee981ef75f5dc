"""Load trained runs, and predict the triples of examples with one of them or several."""

from collections.abc import Sequence
from pathlib import Path

import keras

from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from task.data import TripleGenerator
from task.decode import Candidates, predict_triples, select_triples
from task.model import build_models
from task.records import Example
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "entity_heads")


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    return load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy, select_triples)


def rebuild_models(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder and its labels.json."""
    return build_models(encoder, len(labels["predicates"]), settings)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return all candidates of each example; a training keeps only the best of all dev examples."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    settings, predicates = runs.settings, runs.labels["predicates"]
    encoding = (runs.tokenizer, predicates, runs.encoder_inputs, settings)
    batches = TripleGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_triples(runs.predictor, batches, keep_all=True, progress="predict")
