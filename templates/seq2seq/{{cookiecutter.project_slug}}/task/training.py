"""One training, from examples to the best weights of a run; and trained runs that predict."""

import functools
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
from tokenizers import Tokenizer

from core.data.records import Id
from core.encoders.encoder import load_tokenizer
from core.runs.run import Run
from core.devices.strategy import Strategy
from core.prediction.predictor import Predictor
from core.prediction.loading import TrainedRuns, load_trained
from core.train.project import begin_training, train_models
from core.scores.evaluation import Evaluation
from generation.search import Writer
from generation.settings import TargetTokens
from generation.texts import Written, make_constraints
from task.data import Example, PairGenerator, SourceGenerator, pack_pairs
from task.decode import predict_texts
from task.evaluation import evaluate
from task.model import build_models, keep_rows, load_backbone, writing_layers
from task.settings import Settings
from task.tokens import find_target_tokens, keep_used_tokens, train_text_tokenizer

# What the members of an ensemble must share besides tokens.
SHARED_SETTINGS = ("max_length", "target_length")


def load_tokenizer_and_encoder(
    settings: Settings, examples: Sequence[Example]
) -> tuple[Tokenizer, keras.Model]:
    """Return the tokenizer and the encoder, cut down to the tokens in use where that is asked.

    Args:
        settings: of the project.
        examples: of the training file.
    """
    texts = (text for example in examples for text in (example.source, *example.targets))
    if settings.encoder == "tiny":
        tokenizer = train_text_tokenizer([*texts], settings.tiny_vocabulary)
        return tokenizer, load_backbone(settings, tokenizer)
    tokenizer = load_tokenizer(settings, texts)
    encoder = load_backbone(settings, tokenizer)
    if settings.keep_tokens == "used":
        tokenizer, kept = keep_used_tokens(tokenizer, [*texts])
        encoder = keep_rows(encoder, kept)
    return tokenizer, encoder


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
        known: give the vocabulary; all folds of a cross-validation share it.
        train_examples: to learn from.
        dev_examples: choose the best epoch.
        dev_path: the file that these were read from.
    """
    batch_size = begin_training(settings, strategy)
    with strategy.scope():
        tokenizer, encoder = load_tokenizer_and_encoder(settings, known)
        models = build_models(encoder, settings)
    tokens = find_target_tokens(tokenizer, encoder)
    encoding = (tokenizer, models.encoder_inputs, settings)

    pairs = PairGenerator.of(train_examples, tokens, *encoding, batch_size)
    batches = pack_pairs(pairs, settings)
    dev_batches = SourceGenerator.of(dev_examples, *encoding, settings.prediction_batch_size)
    # The search of the submission takes several times as long as this one.
    quick = settings.generating(decoding="beam", beams=settings.generation.evaluate_beams)
    writer = make_writer([models.inference], tokenizer, tokens, quick)
    predictor = Predictor([writer], strategy)

    def score(batches: SourceGenerator, _: dict | None = None) -> Evaluation:
        written = predict_texts(predictor, batches, tokenizer, tokens, quick)
        return evaluate(batches.examples, written, dev_path, settings, settings.shown_examples)

    labels, score_dev = asdict(tokens), functools.partial(score, dev_batches)
    train_models(
        settings, strategy, run, models, tokenizer, labels, batches, score_dev, settings.monitor
    )


def load_runs(
    paths: Sequence[str | Path],
    strategy: Strategy | None = None,
    changes: dict[str, Any] | None = None,
) -> TrainedRuns:
    """Load runs with their best weights.

    Args:
        paths: as in `load_trained`.
        strategy: as there.
        changes: settings of generation that differ from those of the first run.
    """
    runs = load_trained(
        paths,
        Settings,
        SHARED_SETTINGS,
        lambda encoder, labels, own: build_models(encoder, own),
        strategy,
    )
    settings = runs.settings.generating(**changes or {})
    writer = make_writer(runs.models, runs.tokenizer, TargetTokens(**runs.labels), settings)
    return replace(runs, every=[settings, *runs.every[1:]], models=[writer])


def make_writer(
    models: Sequence[keras.Model], tokenizer: Tokenizer, tokens: TargetTokens, settings: Settings
) -> Writer:
    """Return what writes the targets of sources: by one model, or by several together."""
    table, length = settings.generation, settings.target_length
    vocabulary = models[0].output["logits"].shape[-1]
    constraints = make_constraints(tokenizer, tokens, table, vocabulary, length)
    return Writer(models, writing_layers, tokens, table, length, constraints)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> dict[Id, Written]:
    """Return record id -> what is written for it."""
    settings, tokens = runs.settings, TargetTokens(**runs.labels)
    batches = SourceGenerator.of(
        examples, runs.tokenizer, runs.encoder_inputs, settings, settings.prediction_batch_size
    )
    return predict_texts(runs.predictor, batches, runs.tokenizer, tokens, settings, "predict")
