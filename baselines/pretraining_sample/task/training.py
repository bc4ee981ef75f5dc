"""One training: from shards to the best weights of a run."""

import keras
import tensorflow as tf

from common.callbacks import Checkpoint, Evaluation, Evaluator, PositionCounter
from common.encoder import freeze_layers, save_encoder
from common.loops import run_loop
from common.optimizers import make_optimizer
from common.prediction import Predictor
from common.regularization import make_regularization
from common.run_folder import Run, circumstances
from common.strategy import scale_to_replicas
from task.data import (
    HeldOutGenerator,
    ShardGenerator,
    name_shards,
    read_all,
    read_tokenizer,
    shard_folder,
)
from task.evaluation import evaluate, predict
from task.hugging_face import load_head
from task.model import build_models, compared_scores, load_backbone
from task.settings import METRIC, Settings
from task.tokens import find_special_tokens


def train(settings: Settings, strategy: tf.distribute.Strategy, run: Run) -> None:
    """Build and fit; the callbacks score dev and keep the best weights in the run.

    Args:
        settings: of the project.
        strategy: the devices.
        run: its folder and where to go on.
    """
    batch_size, rate_factor = scale_to_replicas(settings, strategy)
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.precision)
    tokenizer = read_tokenizer(settings)
    special = find_special_tokens(tokenizer)
    with strategy.scope():
        encoder = load_backbone(settings, tokenizer)
        training_model, inference_model = build_models(encoder, settings)
        load_head(training_model, settings)
        freeze_layers(encoder, settings.frozen_layers)
    train = ShardGenerator(
        shard_folder(settings, "train"), special, settings, batch_size, settings.seed
    )
    texts = read_all(shard_folder(settings, "dev"))
    dev = HeldOutGenerator(texts, special, settings, settings.prediction_batch_size)
    train.check_keys(training_model)

    with strategy.scope():
        steps = settings.epochs * len(train)
        optimizer = make_optimizer(settings, training_model, encoder, steps, rate_factor)
        scores = compared_scores(training_model)
        training_model.compile(
            optimizer,
            settings.accumulation,
            settings.xla,
            settings.recompute,
            make_regularization(settings, encoder, scores),
        )
    run.begin()
    save_encoder(run.folder, encoder, tokenizer)
    run.restore(training_model)

    predictor = Predictor([inference_model], strategy)
    named = name_shards(settings, "dev")

    def score_dev() -> Evaluation:
        predictions = predict(predictor, dev)
        return evaluate(dev, predictions, tokenizer, named, settings.shown_examples)

    facts = circumstances(settings)
    callbacks = [
        PositionCounter(run, settings.steps),
        Evaluator(run, score_dev, inference_model, METRIC, facts, train, settings),
        Checkpoint(run, settings.checkpoint_steps),
    ]
    run_loop(settings, training_model, train, run, callbacks)
