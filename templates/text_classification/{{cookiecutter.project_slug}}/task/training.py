"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from core.base.files import project_path
from core.encoders.encoder import load_encoder, load_tokenizer
from core.runs.run import Run
from core.devices.strategy import Strategy
from core.prediction.predictor import Predictor
from core.prediction.loading import TrainedRuns, load_trained
from core.train.project import begin_training, train_models
from core.scores.evaluation import Evaluation
from task.data import Example, ExampleGenerator, Labels, collect_targets, read_examples
from task.decode import Candidates, predict_probabilities, threshold_of
from task.evaluation import evaluate
from task.metrics import choose_metric
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "positive_label")


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
        known: give the vocabulary and the labels; all folds of a cross-validation share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch; they were read from `dev_path`.
    """
    batch_size = begin_training(settings, strategy)
    labels = collect_targets(known, settings)
    tokenizer = load_tokenizer(settings, (text for example in known for text in example.texts))
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), labels, settings)
    inputs = [tensor.name for tensor in models.inference.inputs]
    encoding = (tokenizer, labels, inputs, settings)

    batches = ExampleGenerator.of(train_examples, *encoding, batch_size)
    size = settings.prediction_batch_size
    dev_batches = ExampleGenerator.of(dev_examples, *encoding, size, False)
    predictor = Predictor([models.inference], strategy)

    def score(batches: ExampleGenerator, dev: dict | None = None) -> Evaluation:
        candidates = predict_probabilities(predictor, batches)
        threshold, shown = threshold_of(dev, labels), settings.shown_examples
        return evaluate(batches.examples, candidates, labels, dev_path, settings, threshold, shown)

    def read_unlabelled(path: str) -> ExampleGenerator:
        examples = read_examples(project_path(path), require_labels=False, settings=settings)
        return ExampleGenerator.of(examples, *encoding, batch_size, False)

    rest = (asdict(labels), batches, functools.partial(score, dev_batches))
    monitor = choose_metric(settings.metric, labels, dev_examples)
    train_models(settings, strategy, run, models, tokenizer, *rest, monitor, read_unlabelled)


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""
    what = (paths, Settings, SHARED_SETTINGS)
    return load_trained(
        *what,
        lambda encoder, saved, own: build_models(encoder, restore_labels(saved), own),
        strategy,
    )


def restore_labels(saved: dict) -> Labels:
    """Return the labels that a run's labels.json holds."""
    return Labels(**{**saved, "names": tuple(saved["names"]), "counts": tuple(saved["counts"])})


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the probabilities of every example, as `predict_probabilities` does."""
    # Members of an ensemble may pool in other ways: one may read what another doesn't.
    inputs = sorted({tensor.name for model in runs.models for tensor in model.inputs})
    encoding = (runs.tokenizer, restore_labels(runs.labels), inputs, runs.settings)
    batches = ExampleGenerator.of(examples, *encoding, runs.settings.prediction_batch_size, False)
    return predict_probabilities(runs.predictor, batches, "predict")
