"""One training, from shards to the best weights of a run; and a trained run that predicts."""

import functools
from pathlib import Path

from core.runs.run import Run
from core.devices.strategy import Strategy
from core.prediction.predictor import Predictor
from core.prediction.loading import TrainedRuns, load_trained
from core.train.project import begin_training, train_models
from core.scores.evaluation import Evaluation
from corpus.shards import name_shards, read_shard_tokenizer, shard_folder
from corpus.special_tokens import find_special_tokens
from corpus.texts import read_all_shards
from export_formats.hugging_face import load_head
from task.data import HeldOutGenerator, ShardGenerator
from task.evaluation import evaluate, predict
from task.model import build_models, language_model, load_backbone
from task.settings import METRIC, Settings


def train(settings: Settings, strategy: Strategy, run: Run) -> None:
    """Read, build and fit; dev is scored after each epoch, and the best weights are kept.

    Args:
        settings: of the project; `shards` has what is learned, and dev.
        strategy: the devices.
        run: its folder and where to go on.
    """
    batch_size = begin_training(settings, strategy)
    tokenizer = read_shard_tokenizer(settings)
    special = find_special_tokens(tokenizer)
    with strategy.scope():
        models = build_models(load_backbone(settings, tokenizer), settings)
        if settings.objective != "denoising":
            load_head(language_model(models.training), settings.encoder)

    train_batches = ShardGenerator(shard_folder(settings, "train"), special, settings, batch_size)
    dev_texts = read_all_shards(shard_folder(settings, "dev"))
    dev_batches = HeldOutGenerator.of(dev_texts, special, settings)
    predictor, dev_name = Predictor([models.inference], strategy), name_shards(settings, "dev")

    def score(batches: HeldOutGenerator, _: dict | None = None) -> Evaluation:
        predictions = predict(predictor, batches)
        return evaluate(batches, predictions, tokenizer, dev_name, settings.shown_examples)

    score_dev = functools.partial(score, dev_batches)
    train_models(settings, strategy, run, models, tokenizer, None, train_batches, score_dev, METRIC)


def load_run(path: str | Path) -> TrainedRuns:
    """Load a run with its best weights.

    Args:
        path: folder of a run, or its name in runs/.

    Raises:
        InputError: no such run, or its files don't fit together.
    """
    return load_trained(
        [path], Settings, (), lambda encoder, _, settings: build_models(encoder, settings)
    )
