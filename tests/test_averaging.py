"""Trainings in parts, averages of weights, and layers that are shared or frozen: a small model."""

import contextlib

import keras
import numpy as np
import projects  # noqa: F401  makes `common` importable
import pytest
import tensorflow as tf

from common.averaging import Soup, averaged_weights, warn_of_long_average
from common.callbacks import Checkpoint, Evaluation, Evaluator, PositionCounter
from common.encoder import BertEncoder, freeze_layers
from common.errors import InputError
from common.files import read_json
from common.generator import Generator
from common.optimizers import KINDS, make_optimizer
from common.regularization import make_regularization
from common.run_folder import Run
from common.settings import CommonSettings
from common.training import TrainingModel, fit

EXAMPLES, BATCH, LENGTH, LABELS, EPOCHS = 11, 4, 5, 3, 3
STEPS = 3  # an epoch; the last batch has three examples


@keras.saving.register_keras_serializable("tests")
class CrossEntropy(keras.layers.Layer):
    """Cross-entropy of each example `[batch]`."""

    def call(self, logits, labels):
        return keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


class Examples(Generator):
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


def make_models(settings: CommonSettings) -> tuple[TrainingModel, keras.Model]:
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
    optimizer = make_optimizer(settings, training, encoder, EPOCHS * STEPS)
    regularization = make_regularization(settings, encoder, [])
    training.compile(optimizer, regularization=regularization, run_eagerly=True)
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


def train(settings: CommonSettings, folder, scores, interrupted=0):
    """Train on from where the run is; return the run, both models, what dev saw and the steps."""
    training, inference = make_models(settings)
    run, seen, scores = Run(folder), [], iter(scores)
    run.restore(training)

    def evaluate() -> Evaluation:
        seen.append(inference.get_weights())
        return Evaluation({"f1": next(scores)}, [], [])

    generator, trajectory = Examples(), Trajectory()
    evaluator = Evaluator(run, evaluate, inference, "f1", {}, generator, settings)
    callbacks = [PositionCounter(run), trajectory, evaluator, Checkpoint(run, 1)]
    callbacks.append(Interruption(run, interrupted))
    with contextlib.suppress(KeyboardInterrupt):
        fit(training, generator, run.position, EPOCHS, callbacks)
    return run, training, inference, seen, trajectory.weights, evaluator


def assert_equal(one, other) -> None:
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.parametrize("kind", KINDS)
def test_each_optimizer_resumes_to_the_last_bit(kind, tmp_path):
    """Nine steps at once, and five, then four in a model made anew."""
    settings = CommonSettings(
        optimizer=kind,
        lazy_embeddings=kind in {"adamw", "lion", "muon"},
        adversary="fgm",
        lookahead=4,
        ema=0.8,
        schedule="cosine",
    )
    run, whole, *_ = train(settings, tmp_path / "whole", [0.1] * 3)
    assert run.position.updates == EPOCHS * STEPS
    run, first, *_ = train(settings, tmp_path / "parts", [0.1] * 3, interrupted=5)
    assert run.position.updates == 5
    run, second, *_ = train(settings, tmp_path / "parts", [0.1] * 3)
    assert run.position.updates == EPOCHS * STEPS
    assert_equal(whole.variables, second.variables)
    assert_equal(whole.optimizer.variables, second.optimizer.variables)
    pairs = zip(first.get_weights(), second.get_weights(), strict=True)
    assert max(np.abs(one - other).max() for one, other in pairs) > 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_each_optimizer_is_saved_with_a_model(kind, tmp_path):
    """Keras's own file: a model and its optimizer, loaded, go on to the last bit."""
    keras.utils.set_random_seed(1)
    settings = CommonSettings(optimizer=kind, lookahead=3, ema=0.8)
    encoder = small_encoder(dropout=0.0)
    model = keras.Model(encoder.input, keras.layers.Dense(2, name="head")(encoder.output))
    model.compile(make_optimizer(settings, model, encoder, 8), "mse", run_eagerly=True)
    random = np.random.default_rng(1)
    batches = [(random.integers(0, 20, (4, LENGTH)), random.normal(size=(4, 2))) for _ in range(6)]
    for batch in batches[:4]:
        model.train_on_batch(*batch)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = True
    assert_equal(model.optimizer.variables, loaded.optimizer.variables)
    for batch in batches[4:]:
        model.train_on_batch(*batch)
        loaded.train_on_batch(*batch)
    assert_equal(model.get_weights(), loaded.get_weights())
    assert_equal(model.optimizer.variables, loaded.optimizer.variables)


def test_dev_is_scored_with_the_averaged_weights_and_these_are_kept(tmp_path):
    settings = CommonSettings(ema=0.8)
    run, training, inference, seen, steps, _ = train(settings, tmp_path, [0.1, 0.9, 0.5])
    # Keras begins the average with the weights after the first step.
    averages = [steps[1]]
    for weights in steps[2:]:
        pairs = zip(averages[-1], weights, strict=True)
        averages.append([0.8 * old + 0.2 * new for old, new in pairs])
    assert len(seen) == EPOCHS
    for epoch, found in enumerate(seen, 1):
        for one, other in zip(found, averages[epoch * STEPS - 1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert max(np.abs(a - w).max() for a, w in zip(seen[-1], steps[-1], strict=True)) > 1e-3
    assert_equal(training.get_weights(), steps[-1])
    inference.load_weights(run.folder / "best.weights.h5")
    assert_equal(inference.get_weights(), seen[1])


def test_without_averages_dev_is_scored_with_the_weights(tmp_path):
    *_, seen, steps, _ = train(CommonSettings(), tmp_path, [0.1, 0.9, 0.5])
    assert_equal(seen[-1], steps[-1])


@pytest.mark.parametrize("soup_score", [0.95, 0.8])
def test_soup_is_the_mean_of_the_best_and_kept_if_it_is_better(soup_score, tmp_path):
    settings = CommonSettings(soup=2)
    result = train(settings, tmp_path, [0.5, 0.1, 0.9, soup_score])
    run, _, inference, seen, _, evaluator = result
    assert sorted(path.name for path in run.soup.glob("*.h5")) == [
        "00000003.weights.h5",
        "00000009.weights.h5",
    ]
    evaluator.try_soup()
    mean = [(one + other) / 2 for one, other in zip(seen[0], seen[2], strict=True)]
    for one, other in zip(seen[3], mean, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)
    inference.load_weights(run.folder / "best.weights.h5")
    kept, scores = soup_score > 0.9, read_json(run.folder / "scores.json")
    assert_equal(inference.get_weights(), seen[3 if kept else 2])
    assert scores["dev"]["f1"] == max(0.9, soup_score)
    assert scores.get("averaged_steps") == ([3, 9] if kept else None)


def test_a_soup_is_resumed(tmp_path):
    for place, scores in (("whole", [0.5, 0.7, 0.2]), ("parts", None)):
        settings = CommonSettings(soup=2)
        if scores:
            train(settings, tmp_path / place, scores)
        else:
            train(settings, tmp_path / place, [0.5, 0.6], interrupted=4)
            train(settings, tmp_path / place, [0.7, 0.2])
    soups = [Soup(tmp_path / place / "soup", 2) for place in ("whole", "parts")]
    assert soups[0].scores == soups[1].scores and len(soups[0].scores) == 2
    averages = []
    for soup in soups:
        _, inference = make_models(CommonSettings())
        soup.average(inference)
        averages.append(inference.get_weights())
    assert_equal(*averages)


def test_weights_return_when_scoring_fails():
    training, _ = make_models(CommonSettings(ema=0.5))
    training.fit(Examples().to_dataset(), steps_per_epoch=2, verbose=0)
    before = training.get_weights()
    with pytest.raises(KeyboardInterrupt), averaged_weights(training):
        assert np.abs(training.get_weights()[0] - before[0]).max() > 0
        raise KeyboardInterrupt
    assert_equal(training.get_weights(), before)


def test_a_long_average_is_said(capsys):
    warn_of_long_average(0.0, 10)
    warn_of_long_average(0.99, 1000)
    assert not capsys.readouterr().out
    warn_of_long_average(0.999, 1000)
    said = capsys.readouterr().out
    assert "the last 1000 steps" in said and "set ema to 0.99 at the most" in said
    warn_of_long_average(0.99, 3)
    assert "set ema to 0.00 at the most, or to 0" in capsys.readouterr().out


def bert_models(frozen: int, **changes):
    """Return the compiled training model, the inference model and the encoder of two layers."""
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(
        vocabulary_size=20,
        num_layers=2,
        num_heads=2,
        hidden_dim=4,
        intermediate_dim=8,
        max_sequence_length=LENGTH,
        dropout=0.1,
        name="encoder",
    )
    hidden = encoder(encoder.input)["sequence_output"]
    logits = keras.layers.Dense(LABELS, name="logits")(hidden[:, 0])
    labels = keras.Input((), dtype="int32", name="labels")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({**encoder.input, "labels": labels}, {"label_loss": loss})
    inference = keras.Model(encoder.input, logits)
    return training, inference, encoder


def step(training, settings, encoder) -> None:
    """Compile, as a training does, and make one update."""
    training.compile(
        make_optimizer(settings, training, encoder, 10),
        recompute=settings.recompute,
        regularization=make_regularization(settings, encoder, []),
        run_eagerly=True,
    )
    ones = np.ones((2, LENGTH), "int32")
    batch = {
        **{"token_ids": ones, "segment_ids": 0 * ones, "padding_mask": ones},
        **{"labels": np.array([0, 1], "int32"), "loss_weight": np.full(2, 0.5, "float32")},
    }
    training.train_step({name: tf.constant(array) for name, array in batch.items()})


def moved(before: dict, model) -> set[str]:
    return {path for path, value in values(model).items() if np.any(before[path] != value)}


def values(model) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in model.weights}


@pytest.mark.parametrize("recompute", [False, True])
def test_frozen_layers_stay_as_they_were(recompute):
    training, inference, encoder = bert_models(2)
    settings = CommonSettings(layer_decay=0.5, weight_decay=0.1, recompute=recompute)
    freeze_layers(encoder, 2)
    before = values(training)
    step(training, settings, encoder)
    frozen = {path for path in before if "embedding" in path or "transformer_layer_0" in path}
    others = {path for path in before if path not in frozen and "pooled" not in path}
    assert moved(before, training) >= {path for path in others if path.endswith("kernel")}
    assert not moved(before, training) & frozen and len(frozen) > 10
    assert not any(path in training.optimizer.rates for path in frozen)
    slots = {tuple(variable.shape) for variable in training.optimizer.variables}
    assert tuple(encoder.token_embedding.embeddings.shape) not in slots
    # Given back, and compiled anew, they learn.
    for layer in encoder.layers:
        layer.trainable = True
    before = values(training)
    step(training, settings, encoder)
    assert encoder.token_embedding.embeddings.path in moved(before, training)
    assert any("transformer_layer_0" in path for path in moved(before, training))


def test_frozen_layers_that_are_not_there():
    _, _, encoder = bert_models(0)
    with pytest.raises(InputError, match="has 3 with its embeddings: set frozen_layers to 3"):
        freeze_layers(encoder, 4)
    freeze_layers(encoder, 0)
    assert all(layer.trainable for layer in encoder.layers)
    freeze_layers(encoder, 1)
    with pytest.raises(InputError, match="frozen_layers = 0"):
        make_regularization(CommonSettings(adversary="fgm"), encoder, [])


def test_models_share_layers_and_parts_are_found_and_replaced():
    training, inference, encoder = bert_models(0)
    assert training.get_layer("encoder") is inference.get_layer("encoder") is encoder
    assert training.get_layer("logits").kernel is inference.get_layer("logits").kernel
    # Any tensor of a model is the output of another model, over the same weights.
    below = keras.Model(encoder.input, encoder.get_layer("transformer_layer_0").output)
    inputs = {name: np.ones((1, LENGTH), "int32") for name in encoder.input}
    hidden = below(inputs)
    above = encoder.get_layer("transformer_layer_1")(hidden)
    np.testing.assert_allclose(encoder(inputs)["sequence_output"], above, atol=1e-6)
    # Another head over the trained encoder; the old model keeps its own.
    new = keras.layers.Dense(7, name="new_logits")(encoder(encoder.input)["pooled_output"])
    replaced = keras.Model(encoder.input, new)
    old = inference(inputs).numpy()
    replaced.get_layer("new_logits").kernel.assign_add(np.ones((4, 7)))
    np.testing.assert_array_equal(inference(inputs), old)
    weight = encoder.get_layer("transformer_layer_1").weights[0]
    weight.assign_add(np.random.default_rng(1).normal(size=weight.shape))
    assert any(weight is other for other in replaced.weights)
    assert np.abs(inference(inputs) - old).max() > 0
