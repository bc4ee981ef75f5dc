"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from core.base.files import project_path
from core.data.records import Id
from core.encoders.encoder import load_encoder, load_tokenizer
from core.runs.run import Run
from core.devices.strategy import Strategy
from core.prediction.predictor import Predictor
from core.prediction.loading import TrainedRuns, load_trained
from core.train.project import begin_training, train_models
from core.scores.evaluation import Evaluation
from core.step import Models
from task.data import EventGenerator, Example, Schema, collect_schema, read_examples
from task.decode import make_selector, predict_events
from task.evaluation import evaluate
from task.graph import Graph
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "model")


def train(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    known: Sequence[Example],
    train_examples: Sequence[Example],
    dev_examples: Sequence[Example],
    dev_path: Path,
) -> None:
    """Encode, build and fit; dev is scored after each epoch, and the best weights are kept.

    Args:
        run: its folder and where to go on.
        known: give the vocabulary and the event types; all folds of a cross-validation share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch; they were read from `dev_path`.
    """
    batch_size = begin_training(settings, strategy)
    schema = collect_schema(known)
    tokenizer = load_tokenizer(settings, (example.text for example in known))
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), schema, settings)
    encoding = (tokenizer, schema, models.encoder_inputs, settings)

    batches = EventGenerator.of(train_examples, *encoding, batch_size)
    dev_batches = EventGenerator.of(dev_examples, *encoding, settings.prediction_batch_size, False)
    predictor = Predictor([models.inference], strategy, make_selector(schema, settings.model))

    def score(batches: EventGenerator, dev: dict | None = None) -> Evaluation:
        graphs = predict_events(predictor, batches)
        threshold, shown = (dev or {}).get("threshold"), settings.shown_examples
        return evaluate(batches.examples, graphs, dev_path, settings.metric, threshold, shown)

    def read_unlabelled(path: str) -> EventGenerator:
        examples = read_examples(project_path(path), require_events=False)
        return EventGenerator.of(examples, *encoding, batch_size, False)

    train_models(
        settings,
        strategy,
        run,
        models,
        tokenizer,
        {"types": schema.types},
        batches,
        functools.partial(score, dev_batches),
        f"{settings.metric}_f1",
        read_unlabelled,
    )


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""

    def build(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
        return build_models(encoder, Schema(labels["types"]), settings)

    runs = load_trained(paths, Settings, SHARED_SETTINGS, build, strategy)
    schema = Schema(runs.labels["types"])
    return replace(runs, select=make_selector(schema, runs.settings.model))


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> dict[Id, Graph]:
    """Return the graph of every example, as `predict_events` does."""
    settings, schema = runs.settings, Schema(runs.labels["types"])
    encoding = (runs.tokenizer, schema, runs.encoder_inputs, settings)
    batches = EventGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_events(runs.predictor, batches, "predict")
