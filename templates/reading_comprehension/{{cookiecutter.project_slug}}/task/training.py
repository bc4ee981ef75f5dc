"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
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
from task.data import AnswerGenerator, Example, answer_lengths, read_examples, tokenizer_texts
from task.decode import Candidates, predict_answers
from task.evaluation import evaluate
from task.model import build_models
from task.settings import Settings

# What the members of an ensemble must share besides tokens and lengths of answers.
SHARED_SETTINGS = ("max_length", "window_overlap", "answer_length", "length_prior")


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
        known: give the vocabulary and the lengths of answers; all folds of a cross-validation
            share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch.
        dev_path: the file that these were read from.
    """
    batch_size = begin_training(settings, strategy)
    tokenizer = load_tokenizer(settings, tokenizer_texts(known))
    with strategy.scope():
        models = build_models(load_encoder(settings, tokenizer), settings)
    encoding = (tokenizer, models.encoder_inputs, settings)

    train_batches = AnswerGenerator.of(train_examples, *encoding, batch_size)
    dev_batches = AnswerGenerator.of(dev_examples, *encoding, settings.prediction_batch_size, False)
    predictor = Predictor([models.inference], strategy)
    lengths = None
    if settings.length_prior:  # without it runs on other data may join in an ensemble
        count = functools.partial(
            answer_lengths, tokenizer=tokenizer, longest=settings.answer_length
        )
        lengths = ask("recall_fact", count, known) or count(known)

    def score(batches: AnswerGenerator, dev: dict | None = None) -> Evaluation:
        candidates = predict_answers(predictor, batches, settings, lengths)
        threshold, shown = (dev or {}).get("threshold"), settings.shown_examples
        return evaluate(batches.examples, candidates, dev_path, settings, threshold, shown)

    def read_unlabelled(path: str) -> AnswerGenerator:
        examples = read_examples(project_path(path), require_answers=False)
        return AnswerGenerator.of(examples, *encoding, batch_size, False)

    train_models(
        settings,
        strategy,
        run,
        models,
        tokenizer,
        {"answer_lengths": lengths},
        train_batches,
        functools.partial(score, dev_batches),
        "f1",
        read_unlabelled,
    )


def load_runs(paths: Sequence[str | Path], strategy: Strategy | None = None) -> TrainedRuns:
    """Load runs with their best weights; arguments as in `load_trained`."""

    def build(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
        return build_models(encoder, settings)

    return load_trained(paths, Settings, SHARED_SETTINGS, build, strategy)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> Candidates:
    """Return the candidates of every question, as `predict_answers` does."""
    settings, encoding = runs.settings, (runs.tokenizer, runs.encoder_inputs, runs.settings)
    batches = AnswerGenerator.of(examples, *encoding, settings.prediction_batch_size, False)
    lengths = runs.labels["answer_lengths"]
    return predict_answers(runs.predictor, batches, settings, lengths, "predict")
