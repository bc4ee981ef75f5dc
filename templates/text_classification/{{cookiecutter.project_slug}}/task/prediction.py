"""Load trained runs, and predict the labels of examples with one of them or several."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import keras

from core.base.extras import need
from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.runs.members import tuned_threshold
from core.step import Models
from task.data import ExampleGenerator
from task.decode import Candidates, Threshold, predict_probabilities
from task.model import build_models
from task.records import Example, Labels
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
COLUMNS = "text_column pair_column text_columns text_template turn_separator choice_columns"
TEXT_SETTINGS = tuple(f"competition.{name}" for name in COLUMNS.split())
SHARED_SETTINGS = ("max_length", "positive_label", "competition.swap_prediction", *TEXT_SETTINGS)


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    return load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy)


def rebuild_models(encoder: keras.Model, saved: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder and its labels.json."""
    return build_models(encoder, restore_labels(saved), settings)


def restore_labels(saved: dict) -> Labels:
    """Return the labels that a run's labels.json holds."""
    known = {**saved, "names": tuple(saved["names"]), "counts": tuple(saved["counts"])}
    own = {field.name: known.pop(field.name) for field in fields(Labels)}
    # What else there is belongs to a subclass of extras/competition; older runs have it empty.
    if any(known.values()):
        return need("competition", "examples").restore_labels(own, known)
    return Labels(**own)


def read_threshold(runs: TrainedRuns) -> Threshold:
    """Return the threshold that a run tuned on dev; of several runs the mean."""
    by_label: dict = {}
    if getattr(runs.settings, "competition", None):
        by_label = need("competition", "number_evaluation").read_tuned(runs.folders)
    return by_label or tuned_threshold(runs.folders)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the probabilities of every example, as `predict_probabilities` does."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    # Members of an ensemble may pool in other ways: one may read what another doesn't.
    inputs = sorted({tensor.name for model in runs.models for tensor in model.inputs})
    encoding = (runs.tokenizer, restore_labels(runs.labels), inputs, runs.settings)
    batches = ExampleGenerator.of(examples, *encoding, runs.settings.prediction_batch_size, False)
    return predict_probabilities(runs.predictor, batches, "predict")
