"""Load trained runs: their settings, labels, tokenizer and best weights, ready to predict."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
from tokenizers import Tokenizer

from core.base.extras import ask, need
from core.base.files import read_json
from core.base.settings import CoreSettings, RecordSettings, saved_settings
from core.devices.precision import find_precision
from core.devices.strategy import Strategy, make_strategy
from core.encoders.encoder import restore_encoder
from core.prediction.predictor import Predictor, mean_outputs
from core.runs.manifest import load_best, weights_hash
from core.runs.members import blended_runs, check_members, find_run, find_runs
from core.runs.scores import read_scores
from core.step import Models


@dataclass(frozen=True)
class TrainedRuns:
    """What prediction needs of one run, or of several whose scores are averaged.

    Attributes:
        folders: of the runs.
        every: the settings of each run; `settings` are those of the first.
        labels: the content of their labels.json; None: they have none.
        tokenizer: of their encoders.
        models: the inference model of each run, with its best weights.
        encoder_inputs: the names of the inputs of their encoders.
        strategy: where the models were built.
        weights: the hash of the weights of each run.
        select: as in `Predictor`.
        blend: what predicts in their place, if the one run is a blend (extras/blends).
    """

    folders: list[Path]
    every: list[Any]
    labels: Any
    tokenizer: Tokenizer
    models: list[keras.Model]
    encoder_inputs: list[str]
    strategy: Strategy
    weights: list[str]
    select: Callable[[Sequence[dict]], dict] = mean_outputs
    blend: Any = None

    @property
    def settings(self) -> Any:
        """The settings of the first run."""
        return self.every[0]

    @functools.cached_property
    def predictor(self) -> Predictor:
        """All models together, compiled once; a blend (extras/blends) has none of its own."""
        return Predictor(self.models, self.strategy, self.select)


def load_trained(
    paths: Sequence[str | Path],
    task_class: type[CoreSettings],
    shared_settings: tuple[str, ...],
    build: Callable[[keras.Model, Any, Any], Models],
    strategy: Strategy | None = None,
    select: Callable[[Sequence[dict]], dict] = mean_outputs,
) -> TrainedRuns:
    """Load runs with their best weights.

    Args:
        paths: folders of runs, or their names in runs/; a cross-validation is all its folds.
        task_class: the settings of the task.
        shared_settings: names of the settings that all members of an ensemble must share.
        build: from encoder, content of labels.json and settings to the models.
        strategy: where to build them; None: the devices of this machine.
        select: as in `Predictor`.

    Raises:
        InputError: there is no such run, or its files or two of the runs don't fit together.
    """
    if any(blended_runs(find_run(path)) for path in paths):
        return need("blends").load_blend(paths, task_class, strategy)
    folders = find_runs(paths)
    check_members(folders, task_class, shared_settings)
    for folder in folders:
        scores = read_scores(folder)
        part = "" if "finished" in scores else "its training is not finished: more may come."
        for sentence in filter(None, (scores.get("chose_nothing"), part)):
            print(f"warning: {folder.name}: {sentence}")
    files = [folder / "config.json" for folder in folders]
    every = [saved_settings(task_class, read_json(file), file) for file in files]
    labelled = issubclass(task_class, RecordSettings)  # training on plain text has no labels
    labels = read_json(folders[0] / "labels.json") if labelled else None
    strategy = strategy or make_strategy(every[0])
    weights = [weights_hash(folder) for folder in folders]
    models, inputs = [], set()
    with strategy.scope():
        for folder, settings in zip(folders, every, strict=True):
            keras.config.set_dtype_policy(find_precision(settings))  # as it was trained
            encoder, tokenizer = restore_encoder(folder)
            built = build(encoder, labels, settings)
            # An extra reads frozen weights first; best.weights.h5 has the trained ones.
            ask("restore_base", settings, folder, built, tokenizer)
            load_best(built.inference, folder)
            models.append(built.inference)
            inputs |= {*built.encoder_inputs}
    own = (folders, every, labels, tokenizer, models, sorted(inputs))
    return TrainedRuns(*own, strategy, weights, select)
