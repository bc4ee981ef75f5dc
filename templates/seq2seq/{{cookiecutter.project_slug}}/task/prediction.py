"""Load trained runs, and write the targets of examples with one of them or several."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
from tokenizers import Tokenizer

from core.data.records import Id
from core.devices.strategy import Strategy
from core.prediction.loading import TrainedRuns, load_trained
from core.step import Models
from generation.layers import writing_layers
from generation.perplexity import PerplexityScorer
from generation.search import Writer
from generation.settings import TargetTokens, check_min_length
from generation.texts import Written, make_constraints
from task.data import PairGenerator, SourceGenerator
from task.decode import predict_texts
from task.model import build_models
from task.records import Example
from task.settings import Settings

# What the members of an ensemble must share besides tokens.
OF_PROMPTS = ("writers.prompt", "writers.system", "writers.chat_variables", "writers.chat_date")
SHARED_SETTINGS = ("max_length", "target_length", "writers.chat", *OF_PROMPTS)


def load_runs(
    paths: Sequence[str | Path],
    strategy: Strategy | None = None,
    changes: dict[str, Any] | None = None,
) -> TrainedRuns:
    """Load runs with their best weights.

    Args:
        paths: as in `load_trained`.
        strategy: as in `load_trained`.
        changes: settings of generation that differ from those of the first run.
    """
    runs = load_trained(paths, Settings, SHARED_SETTINGS, rebuild_models, strategy)
    if runs.blend:
        runs.blend.refuse_changes(changes)
        return runs
    settings = runs.settings.with_generation(**changes or {})
    writer = make_writer(runs.models, runs.tokenizer, TargetTokens(**runs.labels), settings)
    return replace(runs, every=[settings, *runs.every[1:]], models=[writer])


def rebuild_models(encoder: keras.Model, labels: dict, settings: Settings) -> Models:
    """Return the models of a run, from its encoder; `labels` are its special tokens, not needed."""
    return build_models(encoder, settings)


def make_writer(
    models: Sequence[keras.Model], tokenizer: Tokenizer, tokens: TargetTokens, settings: Settings
) -> Writer:
    """Return what writes the targets of sources: by one model, or by several together.

    Raises:
        InputError: `generation` asks for texts that can't be written.
    """
    table, length = settings.generation, settings.target_length
    check_min_length(table, length)
    vocabulary = models[0].output["logits"].shape[-1]
    constraints = make_constraints(tokenizer, tokens, table, vocabulary, length)
    return Writer(models, writing_layers, tokens, table, length, constraints)


def predict(runs: TrainedRuns, examples: Sequence[Example]) -> dict[Id, Written]:
    """Return record id -> the text that is written for it."""
    if runs.blend:
        return runs.blend.predict(examples, load_runs, predict)
    settings = runs.settings
    encoding = (runs.tokenizer, runs.encoder_inputs, settings)
    batches = SourceGenerator.of(examples, *encoding, settings.prediction_batch_size)
    return predict_texts(runs.predictor, batches, runs.tokenizer, "predict")


def find_perplexity(runs: TrainedRuns, examples: Sequence[Example]) -> float:
    """Return the perplexity of the targets of examples, by one run or by several together."""
    [writer] = runs.models
    encoding = (writer.tokens, runs.tokenizer, runs.encoder_inputs, runs.settings)
    pairs = PairGenerator.of(examples, *encoding, runs.settings.prediction_batch_size)
    return PerplexityScorer(writer.models, runs.strategy).score(pairs)
