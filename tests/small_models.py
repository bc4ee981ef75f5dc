"""Models that are built and trained in a blink, for the tests of what trains."""

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer, Tokenizer

from core.base import extras as door
from core.base import settings as settings_module
from core.base.extras import EXTRA_NAMES
from core.base.files import PROJECT
from core.base.settings import CoreSettings, with_tables
from core.batches import DataGenerator
from core.encoders import encoder as encoder_module
from core.encoders.encoder import BertEncoder
from core.optimizer import make_optimizer
from core.runs.callbacks import Checkpoint
from core.runs.checkpoints import restore_checkpoint
from core.runs.run import Run
from core.scores.evaluation import Evaluation
from core.scores.evaluator import Evaluator
from core.step import Models, TrainingModel
from core.training import Training

EXAMPLES, BATCH, LENGTH, LABELS, EPOCHS = 11, 4, 5, 3, 3
STEPS = 3  # an epoch; the last batch has three examples


def without_encoders(monkeypatch) -> None:
    """Let the code think that this project does not have the extra `encoders`."""
    # The classes of settings are made once for all tests, with the tables of all extras.
    tables = door.settings_modules()
    for module in (door, settings_module):
        monkeypatch.setattr(module, "settings_modules", lambda: tables)
    others = [name for name in EXTRA_NAMES if name != "encoders"]
    for module in (door, encoder_module):
        monkeypatch.setattr(module, "present", lambda: others)
    how = f"; or {door.how_to_get('encoders')}, which reads more"
    monkeypatch.setattr(encoder_module, "OR_THE_EXTRA", how)


def make_settings(**changes) -> CoreSettings:
    """Return settings with the tables of all extras; a dict changes some keys of a table."""
    return with_tables(CoreSettings)(**changes)


@keras.saving.register_keras_serializable("tests")
class CrossEntropy(keras.layers.Layer):
    """Cross-entropy of each example `[batch]`."""

    def call(self, logits, labels):
        return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


class Examples(DataGenerator):
    """Random tokens and labels."""

    def __init__(self):
        super().__init__(np.full(EXAMPLES, LENGTH), BATCH, buckets=1, seed=1)
        random = np.random.default_rng(3)
        self.tokens = random.integers(0, 20, (EXAMPLES, LENGTH)).astype("int32")
        self.labels = random.integers(0, LABELS, EXAMPLES).astype("int32")

    def make_batch(self, positions, length):
        return {"token_ids": self.tokens[positions], "labels": self.labels[positions]}


class Counted:
    """Batches of which only the number counts: they fit any model."""

    def __init__(self, count: int):
        self.count, self.boundaries = count, [1]

    def __len__(self) -> int:
        return self.count

    def check_keys(self, model: keras.Model, all_read: bool = True) -> None:
        pass


def make_training(
    settings: CoreSettings, models: Models, batches: Any, run: Run | None = None, scorer: Any = None
) -> Training:
    """Return the parts of a training; without a run it can only be prepared and compiled."""
    run = run or Run(PROJECT / "runs" / settings.run_name)
    strategy = tf.distribute.get_strategy()
    return Training(settings, strategy, run, models, batches, scorer, monitor="f1")


def plan_steps(settings: CoreSettings, models: Models, steps: int) -> Training:
    """Return the parts of a training of one epoch, of so many steps."""
    return make_training(settings.model_copy(update={"epochs": 1}), models, Counted(steps))


def compile_models(settings: CoreSettings, models: Models, steps: int) -> None:
    """Let the extras change the models, and compile the training model, for so many steps."""
    compile_training(plan_steps(settings, models, steps))


def compile_training(training: Training) -> None:
    """Compile the training model as train.py does."""
    training.prepare()
    training.models.training.compile(make_optimizer(training), **training.compile_options)


def small_encoder(dropout: float = 0.2) -> keras.Model:
    token_ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = keras.layers.Embedding(20, 6, name="token_embedding")
    hidden = keras.layers.Dense(6, "tanh", name="dense")(table(token_ids))
    hidden = keras.layers.Dropout(dropout)(hidden)
    encoder = keras.Model(token_ids, keras.layers.GlobalAveragePooling1D()(hidden), name="encoder")
    encoder.token_embedding = table
    return encoder


def build_models() -> Models:
    """Return small models of a classifier."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    encoder = small_encoder()
    [token_ids] = encoder.inputs
    labels = keras.Input((), dtype="int32", name="labels")
    logits = keras.layers.Dense(LABELS, name="logits")(encoder(token_ids))
    inference = keras.Model(token_ids, logits, name="inference")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({"token_ids": token_ids, "labels": labels}, {"label_loss": loss})
    return Models(training, inference, encoder)


def make_models(settings: CoreSettings) -> tuple[TrainingModel, keras.Model]:
    """Return the training model, compiled, and the inference model."""
    models = build_models()
    compile_models(settings, models, EPOCHS * STEPS)
    models.training.run_eagerly = True
    return models.training, models.inference


class Trajectory(keras.callbacks.Callback):
    """The weights after each step."""

    def on_train_begin(self, logs=None):
        self.weights = [self.model.get_weights()]

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(self.model.get_weights())


class Interruption(keras.callbacks.Callback):
    """Ends the training after an update, as Ctrl-C does."""

    def __init__(self, run: Run, update: int):
        super().__init__()
        self.run = run
        self.update = update

    def on_train_batch_end(self, batch, logs=None):
        if self.run.position.updates == self.update:
            raise KeyboardInterrupt


class Scripted:
    """A scorer that returns one score after the other, and notes the weights it is asked about.

    Args:
        inference: the model that would be scored.
        scores: what it is said to reach.
    """

    def __init__(self, inference: keras.Model, scores: list[float]):
        self.inference, self.scores, self.seen = inference, iter(scores), []

    def score_dev(self) -> Evaluation:
        self.seen.append(self.inference.get_weights())
        return Evaluation({"f1": next(self.scores)}, [], [])


def train(settings: CoreSettings, folder, scores, interrupted=0):
    """Train on from where the run is; return the run, both models, what dev saw and the steps."""
    settings = settings.model_copy(update={"epochs": EPOCHS, "checkpoint_steps": 1})
    run, models, batches, trajectory = Run(folder), build_models(), Examples(), Trajectory()
    scorer = Scripted(models.inference, scores)
    training = make_training(settings, models, batches, run, scorer)
    compile_training(training)
    models.training.run_eagerly = True
    restore_checkpoint(run.folder, run.position, models.training)
    evaluator = Evaluator(training)
    callbacks = [
        trajectory,
        evaluator,
        Checkpoint(run, settings),
        Interruption(run, interrupted),
    ]
    with contextlib.suppress(KeyboardInterrupt):
        training.fit(callbacks)
    return run, models.training, models.inference, scorer.seen, trajectory.weights, evaluator


def assert_equal(one, other) -> None:
    """Compare arrays, or what can be made one, pair by pair."""
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


def word_piece(vocabulary: dict[str, int]) -> Tokenizer:
    """Return BERT's tokenizer without upper case."""
    return BertWordPieceTokenizer(vocabulary, lowercase=True)._tokenizer


def bert_encoder(**changes) -> BertEncoder:
    """Return an encoder of two layers."""
    sizes = {
        "vocabulary_size": 20,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "max_sequence_length": 10,
    }
    return BertEncoder(**{**sizes, **changes}, name="encoder")


def with_head(encoder: keras.Model) -> Models:
    """Return models of an encoder, a head and a layer that learns at a rate of its own."""
    hidden = encoder(encoder.input)["sequence_output"]
    outputs = keras.layers.Dense(3, name="transitions")(keras.layers.Dense(4, name="head")(hidden))
    model = keras.Model(encoder.input, outputs)
    return Models(model, model, encoder, learning_rates={"transitions": 1e-2})
