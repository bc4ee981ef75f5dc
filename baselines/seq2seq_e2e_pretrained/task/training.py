"""One training: from examples to the best weights of a run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import keras
import tensorflow as tf
from tokenizers import Tokenizer

from common.callbacks import Checkpoint, Evaluation, Evaluator, PositionCounter
from common.encoder import freeze_layers, save_encoder
from common.files import write_json
from common.loops import run_loop
from common.optimizers import make_optimizer
from common.prediction import Predictor
from common.regularization import make_regularization
from common.run_folder import Run, circumstances
from common.strategy import scale_to_replicas
from task.data import Example, PairGenerator, SourceGenerator, all_texts
from task.decode import predict_texts
from task.evaluation import evaluate
from task.generation import Writer
from task.model import build_models, compared_scores, load_backbone
from task.settings import Settings
from task.tokens import find_target_tokens, keep_used_tokens, load_text_tokenizer


def load_tokenizer_and_encoder(
    settings: Settings, examples: Sequence[Example]
) -> tuple[Tokenizer, keras.Model]:
    """Return the tokenizer and the encoder, cut down to the tokens in use where that is asked.

    Args:
        settings: of the project.
        examples: of the training file.
    """
    texts, kept = all_texts(examples), None
    tokenizer = load_text_tokenizer(settings, texts)
    encoder_tokenizer = tokenizer
    # `tiny` has the tokens of the training file only.
    if settings.keep_tokens == "used" and settings.encoder != "tiny":
        tokenizer, kept = keep_used_tokens(tokenizer, texts)
    return tokenizer, load_backbone(settings, encoder_tokenizer, kept)


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
        known: give the vocabulary; all folds of a cross-validation share it.
        train_examples: to learn from.
        dev_examples: choose the best epoch.
        dev_path: the file that these were read from.
    """
    batch_size, rate_factor = scale_to_replicas(settings, strategy)
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.precision)
    with strategy.scope():
        tokenizer, encoder = load_tokenizer_and_encoder(settings, known)
        training_model, inference_model = build_models(encoder, settings)
    tokens = find_target_tokens(tokenizer, encoder.token_embedding.input_dim)
    inputs = [tensor.name for tensor in encoder.inputs]
    train = PairGenerator(
        train_examples,
        tokenizer,
        inputs,
        tokens,
        settings,
        batch_size=batch_size,
        seed=settings.seed,
    )
    dev = SourceGenerator(
        dev_examples, tokenizer, inputs, settings, batch_size=settings.prediction_batch_size
    )
    train.check_keys(training_model)

    with strategy.scope():
        steps = settings.epochs * len(train)
        freeze_layers(encoder, settings.frozen_layers)
        optimizer = make_optimizer(settings, training_model, encoder, steps, rate_factor)
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
    write_json(run.folder / "labels.json", asdict(tokens))
    run.restore(training_model)

    # The search of the submission takes several times as long as this one.
    quick = settings.model_copy(update={"decoding": "beam"})
    writer = Writer([inference_model], [settings.model], tokens, quick, settings.evaluate_beams)
    predictor = Predictor([writer], strategy)

    def score_dev() -> Evaluation:
        predictions = predict_texts(predictor, dev, tokenizer, tokens)
        return evaluate(dev_examples, predictions, dev_path, settings, settings.shown_examples)

    facts = circumstances(settings)
    callbacks = [
        PositionCounter(run, settings.steps),
        Evaluator(run, score_dev, inference_model, settings.metric, facts, train, settings),
        Checkpoint(run, settings.checkpoint_steps),
    ]
    run_loop(settings, training_model, train, run, callbacks)
