"""What stands around every task: how a training begins and ends, and how runs are loaded."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
from tokenizers import Tokenizer

from core.base.extras import ask
from core.base.files import read_json, write_json
from core.base.settings import CoreSettings, RecordSettings, saved_settings
from core.data.data_generator import DataGenerator
from core.model.dropout import place_dropout
from core.model.encoder import restore_encoder, save_encoder
from core.runs.run_folder import Run, check_members, find_runs, load_best, provenance
from core.train.devices import Strategy, find_precision, make_strategy, scale_to_replicas
from core.train.loop import fit
from core.train.optimizer import make_optimizer
from core.train.prediction import Predictor, mean_outputs
from core.train.scoring import Checkpoint, Evaluation, Evaluator, OwnWeights, PositionCounter
from core.train.training import Models


def begin_training(settings: CoreSettings, strategy: Strategy) -> int:
    """Set the seeds and the precision; return the batch size over all replicas.

    Raises:
        InputError: the batch can't be split evenly.
    """
    batch_size, _ = scale_to_replicas(settings, strategy)
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(find_precision(settings))
    return batch_size


def train_models(
    settings: CoreSettings,
    strategy: Strategy,
    run: Run,
    models: Models,
    tokenizer: Tokenizer,
    labels: dict | None,
    train_batches: DataGenerator,
    score_dev: "functools.partial[Evaluation]",
    monitor: str,
    read_unlabelled: Callable[[str], DataGenerator] | None = None,
) -> None:
    """Compile and fit; the callbacks score dev and keep the best weights in the run.

    Args:
        settings: of the project; `strategy` is what they choose, under whose scope the models are.
        run: its folder and where to go on.
        models: of the task; `tokenizer` is that of their encoder.
        labels: what prediction has to know besides the weights; None: nothing.
        score_dev: scores batches, those of dev, with the current weights; `monitor` decides.
        read_unlabelled: from a file without labels to batches; None: the task has no use for them.
    """
    train_batches.check_keys(models.training)
    evaluate = ask("score_beside", settings, train_batches, score_dev) or score_dev
    train_batches = ask("extend_batches", settings, train_batches, read_unlabelled) or train_batches
    steps = settings.epochs * len(train_batches)
    with strategy.scope():
        ask("keep_used_rows", settings, models, train_batches)
        compile_models(settings, models, steps, scale_to_replicas(settings, strategy)[1])
    run.begin()
    save_encoder(run.folder, models.encoder, tokenizer)
    if labels is not None:
        write_json(run.folder / "labels.json", labels)
    run.note_files("config.json", "encoder.json", "tokenizer.json", "labels.json")
    ask("note_base", settings, run, models)
    run.restore(models.training)

    averages = ask("make_averages", settings, run, settings.steps or steps) or OwnWeights()
    facts, model = provenance(settings), models.inference
    evaluator = Evaluator(run, evaluate, model, monitor, facts, train_batches, settings, averages)
    callbacks = [PositionCounter(run, len(train_batches)), evaluator, Checkpoint(run, settings)]
    loop = ask("choose_loop", settings) or fit
    with train_batches.own_errors():
        loop(settings, models.training, train_batches, run, callbacks)
    evaluator.finish()


def compile_models(
    settings: CoreSettings, models: Models, steps: int, rate_factor: float = 1.0
) -> None:
    """Give the training model its optimizer and its step; arguments as in `make_optimizer`."""
    place_dropout(models.training, settings.seed)
    ask("change_layers", settings, models)
    optimizer = make_optimizer(settings, models, steps, rate_factor)
    make_gradients = ask("make_gradients", settings, models.encoder, models.scores)
    models.training.compile(optimizer, settings.accumulation, settings.devices.xla, make_gradients)


@dataclass(frozen=True)
class TrainedRuns:
    """What prediction needs of one run, or of several whose scores are averaged.

    Attributes:
        every: the settings of each run; `settings`: of the first.
        labels: the content of their labels.json; None: they have none.
        models: the inference model of each run, with its best weights.
        encoder_inputs: the names of the inputs of their encoders.
        select: what is decoded, as in `Predictor`.
    """

    folders: list[Path]
    every: list[Any]
    labels: Any
    tokenizer: Tokenizer
    models: list[keras.Model]
    encoder_inputs: list[str]
    strategy: Strategy
    select: Callable[[Sequence[dict]], dict] = mean_outputs

    @property
    def settings(self) -> Any:
        """The settings of the first run."""
        return self.every[0]

    @functools.cached_property
    def predictor(self) -> Predictor:
        """All models together, compiled once."""
        return Predictor(self.models, self.strategy, self.select)


def load_trained(
    paths: Sequence[str | Path],
    task_class: type[CoreSettings],
    shared_settings: tuple[str, ...],
    build: Callable[[keras.Model, Any, Any], Models],
    strategy: Strategy | None = None,
) -> TrainedRuns:
    """Load runs with their best weights.

    Args:
        paths: folders of runs, or their names in runs/; a cross-validation stands for its folds.
        task_class: the settings of the task.
        shared_settings: names of those that the members of an ensemble must share.
        build: from encoder, content of labels.json and settings to the models.
        strategy: where to build them; None: what this machine has.

    Raises:
        InputError: no such run, or its files don't fit together, or two runs don't.
    """
    folders = find_runs(paths)
    check_members(folders, task_class.task, shared_settings)
    files = [folder / "config.json" for folder in folders]
    every = [saved_settings(task_class, read_json(file), file) for file in files]
    labelled = issubclass(task_class, RecordSettings)  # what learns from plain text has no labels
    labels = read_json(folders[0] / "labels.json") if labelled else None
    strategy = strategy or make_strategy(every[0])
    models, inputs = [], set()
    with strategy.scope():
        for folder, settings in zip(folders, every, strict=True):
            keras.config.set_dtype_policy(find_precision(settings))  # as it was trained
            encoder, tokenizer = restore_encoder(folder)
            built = build(encoder, labels, settings)
            # With frozen weights of an extra first; best.weights.h5 holds the trained ones.
            ask("restore_base", settings, folder, built, tokenizer)
            load_best(built.inference, folder)
            models.append(built.inference)
            inputs |= {*built.encoder_inputs}
    return TrainedRuns(folders, every, labels, tokenizer, models, sorted(inputs), strategy)
