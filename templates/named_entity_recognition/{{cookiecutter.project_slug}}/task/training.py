"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import keras

from core.base.extras import ask
from core.base.files import project_path
from core.encoders.encoder import load_encoder, load_tokenizer
from core.runs.run import Run
from core.devices.strategy import Strategy
from core.prediction.predictor import Predictor
from core.prediction.loading import TrainedRuns, load_trained
from core.train.project import begin_training, train_models
from core.scores.evaluation import Evaluation
from core.step import Models
from task.data import EntityGenerator, Example, Schema, collect_schema, read_examples
from task.decode import Candidates, make_selector, predict_entities
from task.evaluation import evaluate, monitor_of, thresholds_of
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "tagger")


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
        settings: of the project.
        strategy: the devices.
        run: its folder and where to go on.
        known: give the vocabulary and the types; all folds of a cross-validation share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch.
        dev_path: the file that these were read from.
    """
    batch_size = begin_training(settings, strategy)
    path = project_path(settings.train_file)
    collect = functools.partial(collect_schema, path=path, settings=settings)
    schema = ask("recall_fact", collect, known) or collect(known)
    tokenizer = load_tokenizer(settings, (example.text for example in known))
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), len(schema.types), settings)
    encoding = (tokenizer, schema.types, models.encoder_inputs, settings)

    batches = EntityGenerator.of(train_examples, *encoding, batch_size)
    dev_batches = EntityGenerator.of(dev_examples, *encoding, settings.prediction_batch_size, False)
    predictor = Predictor([models.inference], strategy, make_selector(settings.tagger))

    def score(batches: EntityGenerator, dev: dict | None = None) -> Evaluation:
        found = predict_entities(predictor, batches, schema.flat)
        thresholds, shown = thresholds_of(dev), settings.shown_examples
        return evaluate(batches.examples, found, dev_path, settings, thresholds, shown)

    def read_unlabelled(path: str) -> EntityGenerator:
        examples = read_examples(project_path(path), settings, require_entities=False)
        return EntityGenerator.of(examples, *encoding, batch_size, False)

    train_models(
        settings,
        strategy,
        run,
        models,
        tokenizer,
        asdict(schema),
        batches,
        functools.partial(score, dev_batches),
        monitor_of(settings),
        read_unlabelled,
    )


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""

    def build(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
        return build_models(encoder, len(labels["types"]), settings)

    runs = load_trained(paths, Settings, SHARED_SETTINGS, build, strategy)
    return replace(runs, select=make_selector(runs.settings.tagger))


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the candidates of every example, as `predict_entities` does."""
    settings, schema = runs.settings, Schema(**runs.labels)
    encoding = (runs.tokenizer, schema.types, runs.encoder_inputs, settings)
    batches = EntityGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_entities(runs.predictor, batches, schema.flat, "predict")
