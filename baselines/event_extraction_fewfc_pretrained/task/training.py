"""One training: from examples to the best weights of a run."""

from pathlib import Path

import keras
import tensorflow as tf

from common.callbacks import Checkpoint, Evaluation, Evaluator, PositionCounter
from common.encoder import freeze_layers, load_encoder, load_tokenizer, save_encoder
from common.files import write_json
from common.generator import WithUnlabelled
from common.loops import run_loop
from common.optimizers import make_optimizer
from common.prediction import Predictor
from common.regularization import make_regularization
from common.run_folder import Run, circumstances
from common.settings import project_path
from common.strategy import scale_to_replicas
from task.data import Example, collect_schema, make_generator, read_examples, schema_to_dict
from task.decode import predict_events
from task.evaluation import evaluate
from task.model import build_models, compared_scores
from task.settings import Settings


def train(
    settings: Settings,
    strategy: tf.distribute.Strategy,
    run: Run,
    known: list[Example],
    train_examples: list[Example],
    dev_examples: list[Example],
    dev_path: Path,
) -> None:
    """Encode, build and fit; the callbacks score dev and keep the best weights in the run.

    Args:
        settings: of the project.
        strategy: the devices.
        run: its folder and where to go on.
        known: give the vocabulary and the event types; all folds of a cross-validation share them.
        train_examples: to learn from.
        dev_examples: choose the best epoch.
        dev_path: the file that these were read from.
    """
    batch_size, rate_factor = scale_to_replicas(settings, strategy)
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.precision)
    schema = collect_schema(known)
    tokenizer = load_tokenizer(settings, [example.text for example in known])
    with strategy.scope():
        encoder = load_encoder(settings, tokenizer)
        training_model, inference_model = build_models(encoder, schema, settings)
    inputs = [tensor.name for tensor in encoder.inputs]
    encoding = (settings, tokenizer, schema, inputs)
    train = make_generator(train_examples, *encoding, batch_size=batch_size, seed=settings.seed)
    dev = make_generator(
        dev_examples, *encoding, batch_size=settings.prediction_batch_size, labels=False
    )
    train.check_keys(training_model)
    if settings.unlabelled_file:
        others = read_examples(project_path(settings.unlabelled_file), False)
        unlabelled = make_generator(
            others, *encoding, batch_size=batch_size, seed=settings.seed, labels=False
        )
        train = WithUnlabelled(train, unlabelled)

    with strategy.scope():
        steps = settings.epochs * len(train)
        groups = {"transitions": settings.crf_learning_rate} if settings.model == "crf" else {}
        freeze_layers(encoder, settings.frozen_layers)
        optimizer = make_optimizer(settings, training_model, encoder, steps, rate_factor, groups)
        scores = compared_scores(inference_model)
        training_model.compile(
            optimizer,
            settings.accumulation,
            settings.xla,
            settings.recompute,
            make_regularization(settings, encoder, scores),
        )
    run.begin()
    save_encoder(run.folder, encoder, tokenizer)
    write_json(run.folder / "labels.json", schema_to_dict(schema))
    run.restore(training_model)

    predictor = Predictor([inference_model], strategy)

    def score_dev() -> Evaluation:
        candidates = predict_events(predictor, dev)
        metric, shown = settings.metric, settings.shown_examples
        return evaluate(dev_examples, candidates, dev_path, metric, shown=shown)

    monitor, facts = f"{settings.metric}_f1", circumstances(settings)
    callbacks = [
        PositionCounter(run, settings.steps),
        Evaluator(run, score_dev, inference_model, monitor, facts, train, settings),
        Checkpoint(run, settings.checkpoint_steps),
    ]
    run_loop(settings, training_model, train, run, callbacks)
