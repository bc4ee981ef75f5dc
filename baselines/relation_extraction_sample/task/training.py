"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import keras

from core.base.files import project_path
from core.model.encoder import load_encoder, load_tokenizer
from core.runs.run_folder import Run
from core.train.devices import Strategy
from core.train.prediction import Predictor
from core.train.project import TrainedRuns, begin_training, load_trained, train_models
from core.train.scoring import Evaluation
from core.train.training import Models
from task.data import Example, TripleGenerator, collect_predicates, read_examples
from task.decode import Candidates, predict_triples, select_triples
from task.evaluation import evaluate
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and labels.
SHARED_SETTINGS = ("max_length", "window_overlap", "entity_heads")


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
        known: give the vocabulary and the predicates; all folds of a cross-validation share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch; they were read from `dev_path`.
    """
    batch_size = begin_training(settings, strategy)
    predicates = collect_predicates(known)
    tokenizer = load_tokenizer(settings, (example.text for example in known))
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), len(predicates), settings)
    encoding = (tokenizer, predicates, models.encoder_inputs, settings)

    batches = TripleGenerator.of(train_examples, *encoding, batch_size)
    dev_batches = TripleGenerator.of(dev_examples, *encoding, settings.prediction_batch_size, False)
    predictor = Predictor([models.inference], strategy, select_triples)

    def score(batches: TripleGenerator, dev: dict | None = None) -> Evaluation:
        candidates, threshold = predict_triples(predictor, batches), (dev or {}).get("threshold")
        return evaluate(batches.examples, candidates, dev_path, threshold, settings.shown_examples)

    def read_unlabelled(path: str) -> TripleGenerator:
        examples = read_examples(project_path(path), require_triples=False)
        return TripleGenerator.of(examples, *encoding, batch_size, False)

    names, score_dev = {"predicates": predicates}, functools.partial(score, dev_batches)
    train_models(
        settings, strategy, run, models, tokenizer, names, batches, score_dev, "f1", read_unlabelled
    )


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""

    def build(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
        return build_models(encoder, len(labels["predicates"]), settings)

    runs = load_trained(paths, Settings, SHARED_SETTINGS, build, strategy)
    return replace(runs, select=select_triples)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the candidates of every example, as `predict_triples` does."""
    settings, predicates = runs.settings, runs.labels["predicates"]
    encoding = (runs.tokenizer, predicates, runs.encoder_inputs, settings)
    batches = TripleGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    return predict_triples(runs.predictor, batches, "predict")
