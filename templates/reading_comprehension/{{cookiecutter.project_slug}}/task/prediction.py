"""Load trained runs, and predict the answers to questions with one of them or several."""

from collections.abc import Sequence
from pathlib import Path

import keras

from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from task.data import AnswerGenerator
from task.decode import Candidates, predict_answers
from task.model import build_models
from task.records import Example
from task.settings import Settings

# What the members of an ensemble must share besides tokens and lengths of answers.
SHARED_SETTINGS = ("max_length", "window_overlap", "answer_length", "length_prior")


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    return load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy)


def rebuild_models(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder; they don't depend on its labels.json."""
    return build_models(encoder, settings)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the candidates of every question, as `predict_answers` does."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    settings, encoding = runs.settings, (runs.tokenizer, runs.encoder_inputs, runs.settings)
    batches = AnswerGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    lengths = runs.labels["answer_lengths"]
    return predict_answers(runs.predictor, batches, settings, lengths, "predict")
