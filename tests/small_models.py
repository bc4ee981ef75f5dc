"""Models that are built and trained in a blink, for the tests of what trains."""

import contextlib

import keras
import numpy as np
from tokenizers import BertWordPieceTokenizer, Tokenizer

from core.base import extras as door
from core.base.extra_names import EXTRA_NAMES
from core.base.extras import ask
from core.base.settings import CoreSettings, with_tables
from core.batches import DataGenerator
from core.model import encoder as encoder_module
from core.encoders.encoder import BertEncoder
from core.runs.run import Run
from core.training import fit
from core.train.project import compile_models
from core.runs.callbacks import Checkpoint, PositionCounter
from core.scores.evaluation import Evaluation, OwnWeights
from core.scores.evaluator import Evaluator
from core.step import Models, TrainingModel

EXAMPLES, BATCH, LENGTH, LABELS, EPOCHS = 11, 4, 5, 3, 3
STEPS = 3  # an epoch; the last batch has three examples


def without_encoders(monkeypatch) -> None:
    """Let the code think that this project does not have the extra `encoders`."""
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

    def make_batch(self, examples, length):
        return {"token_ids": self.tokens[examples], "labels": self.labels[examples]}


def small_encoder(dropout: float = 0.2) -> keras.Model:
    token_ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = keras.layers.Embedding(20, 6, name="token_embedding")
    hidden = keras.layers.Dense(6, "tanh", name="dense")(table(token_ids))
    hidden = keras.layers.Dropout(dropout)(hidden)
    encoder = keras.Model(token_ids, keras.layers.GlobalAveragePooling1D()(hidden), name="encoder")
    encoder.token_embedding = table
    return encoder


def make_models(settings: CoreSettings) -> tuple[TrainingModel, keras.Model]:
    """Return the training model, compiled, and the inference model."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    encoder = small_encoder()
    [token_ids] = encoder.inputs
    labels = keras.Input((), dtype="int32", name="labels")
    logits = keras.layers.Dense(LABELS, name="logits")(encoder(token_ids))
    inference = keras.Model(token_ids, logits, name="inference")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({"token_ids": token_ids, "labels": labels}, {"label_loss": loss})
    compile_models(settings, Models(training, inference, encoder), EPOCHS * STEPS)
    training.run_eagerly = True
    return training, inference


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


def train(settings: CoreSettings, folder, scores, interrupted=0):
    """Train on from where the run is; return the run, both models, what dev saw and the steps."""
    settings = settings.model_copy(update={"epochs": EPOCHS, "checkpoint_steps": 1})
    training, inference = make_models(settings)
    run, seen, scores = Run(folder), [], iter(scores)
    run.restore(training)

    def evaluate() -> Evaluation:
        seen.append(inference.get_weights())
        return Evaluation({"f1": next(scores)}, [], [])

    batches, trajectory = Examples(), Trajectory()
    averages = ask("make_averages", settings, run, EPOCHS * STEPS) or OwnWeights()
    evaluator = Evaluator(run, evaluate, inference, "f1", {}, batches, settings, averages)
    callbacks = [
        PositionCounter(run, len(batches)),
        trajectory,
        evaluator,
        Checkpoint(run, settings),
    ]
    callbacks.append(Interruption(run, interrupted))
    with contextlib.suppress(KeyboardInterrupt):
        fit(settings, training, batches, run, callbacks)
    return run, training, inference, seen, trajectory.weights, evaluator


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
    return Models(model, model, encoder, rates={"transitions": 1e-2})
