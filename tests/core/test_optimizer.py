"""AdamW and its schedule against NumPy."""

import functools
import types
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from optimizer_reference import (
    HEAD,
    RATE,
    STEPS,
    assert_config_goes_round,
    assert_only_what_decays_moves,
    assert_state_goes_round,
    assert_ten_steps_agree,
    schedule_value,
)
from small_models import (
    LABELS,
    LENGTH,
    CrossEntropy,
    bert_encoder,
    compile_models,
    make_settings,
    plan_steps,
    with_head,
)

from core.base.errors import InputError
from core.fast.adamw import EPSILON, AdamW
from core.optimizer import WarmUpThenDecay, make_optimizer
from core.step import Models, TrainingModel
from extras.optimizers.toolbox import freeze_layers

make = functools.partial(AdamW, rate_factors=dict.fromkeys(HEAD, 5.0), epsilon=EPSILON)
CASES = {"plain": {"decay": 0.0, "clip_norm": 0.0}, "decay": {"decay": 0.1, "clip_norm": 0.5}}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparse", [False, True])
def test_ten_steps_agree_with_numpy(sparse, case):
    assert_ten_steps_agree(make, "adamw", sparse, case != "plain", **CASES[case])


def test_without_gradient_only_what_decays_moves():
    assert_only_what_decays_moves(make(0.1, decay=0.5), 1 - 0.1 * 0.5, 1 - 0.5 * 0.5)


def test_state_goes_round():
    assert_state_goes_round(functools.partial(make, RATE, use_ema=True))


def test_schedule():
    schedule = WarmUpThenDecay(RATE, STEPS, 3)
    again = WarmUpThenDecay.from_config(schedule.get_config())
    rates = [float(schedule(step)) for step in range(STEPS + 3)]
    assert rates == [float(again(step)) for step in range(STEPS + 3)]
    expected = [schedule_value("linear", step + 1) for step in range(STEPS + 3)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    assert rates[0] == pytest.approx(RATE / 3), "the first update is not lost"
    assert max(rates) == pytest.approx(RATE)


def test_schedule_without_warm_up():
    rates = [float(WarmUpThenDecay(1.0, 99, 0)(step)) for step in (0, 49, 98)]
    np.testing.assert_allclose(rates, [0.99, 0.5, 0.01], rtol=1e-5)


def test_rate_is_read_before_the_update_counts():
    variable = keras.Variable(np.ones(1, "float32"), name="kernel")
    optimizer = AdamW(WarmUpThenDecay(1e-2, 3, 2), decay=0.0, epsilon=1e-12)
    moves = []
    for _ in range(3):
        before = variable.numpy()
        optimizer.apply([keras.ops.ones(1)], [variable])
        moves.append(float((before - variable.numpy())[0]))
    np.testing.assert_allclose(moves, [5e-3, 1e-2, 5e-3], rtol=1e-4)


def test_config_goes_round():
    rate = WarmUpThenDecay(1e-3, 50, 5)
    again = assert_config_goes_round(make(rate, decay=0.2, clip_norm=0.3, no_decay=("bias",)))
    assert (again.decay, again.clip_norm, again.no_decay) == (0.2, 0.3, ("bias",))


def test_optimizer_of_the_settings():
    models = with_head(bert_encoder())
    model, encoder = models.training, models.encoder
    rates = {"learning_rate": 1e-4, "head_learning_rate": 1e-3}
    scaled = {"scale_learning_rate": True}
    settings = make_settings(warm_up=0.25, weight_decay=0.3, devices=scaled, **rates)
    training = plan_steps(settings, models, 40)
    training.strategy = types.SimpleNamespace(num_replicas_in_sync=2)
    optimizer = make_optimizer(training)
    optimizer.build(model.trainable_variables)
    assert type(optimizer) is AdamW and optimizer.epsilon == EPSILON
    rates = {
        variable.path: optimizer.rate_factors[variable.path]
        for variable in model.trainable_variables
    }
    within = {variable.path for variable in encoder.trainable_variables}
    assert {rates[path] for path in within} == {1.0} and len(within) > 20
    head, transitions = (model.get_layer(name).kernel.path for name in ("head", "transitions"))
    assert rates[head] == pytest.approx(10) and rates[transitions] == pytest.approx(100)
    assert float(optimizer._learning_rate(9)) == pytest.approx(2e-4)
    assert optimizer.clip_norm == 1.0 and optimizer.decay == 0.3 and not optimizer.use_ema
    assert optimizer.no_decay == ("bias", "gamma", "beta")


# ---------------------------------------------------------------- layers


def bert_models() -> Models:
    """Return the models over an encoder of two layers."""
    keras.utils.set_random_seed(1)
    encoder = bert_encoder(
        hidden_dim=4, intermediate_dim=8, max_sequence_length=LENGTH, dropout=0.1
    )
    hidden = encoder(encoder.input)["sequence_output"]
    logits = keras.layers.Dense(LABELS, name="logits")(hidden[:, 0])
    labels = keras.Input((), dtype="int32", name="labels")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({**encoder.input, "labels": labels}, {"label_loss": loss})
    return Models(training, keras.Model(encoder.input, logits), encoder)


def step(models: Models, settings) -> None:
    """Compile, as a training does, and make one update."""
    compile_models(settings, models, 10)
    ones = np.ones((2, LENGTH), "int32")
    batch = {
        **{"token_ids": ones, "segment_ids": 0 * ones, "padding_mask": ones},
        **{"labels": np.array([0, 1], "int32"), "loss_weight": np.full(2, 0.5, "float32")},
    }
    models.training.train_step({name: tf.constant(array) for name, array in batch.items()})


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("adversary", ["none", "fgm"])
def test_losses_are_weighed_by_factors_where_the_model_is_built(accumulation, adversary):
    """Their outputs are then those of layers that Keras names `multiply`."""
    models = bert_models()
    [loss] = models.training.outputs
    outputs = {"whole": loss, "half": 0.5 * loss}
    models = replace(models, training=TrainingModel(models.training.input, outputs))
    step(models, make_settings(accumulation=accumulation, regularization={"adversary": adversary}))
    means = {name: float(mean) for name, mean in models.training.loss_means.result().items()}
    assert list(means) == ["loss", "half", "whole"] and means["half"] > 0
    assert means["half"] == pytest.approx(means["whole"] / 2)
    assert means["loss"] == pytest.approx(1.5 * means["whole"])


def moved(before: dict, model) -> set[str]:
    return {path for path, value in values(model).items() if np.any(before[path] != value)}


def values(model) -> dict[str, np.ndarray]:
    return {variable.path: variable.numpy() for variable in model.weights}


@pytest.mark.shown("True")
@pytest.mark.trains
@pytest.mark.parametrize("recompute", [False, True])
def test_frozen_layers_stay_as_they_were(recompute):
    models = bert_models()
    training, encoder = models.training, models.encoder
    optimizers = {"layer_decay": 0.5, "frozen_layers": 2}
    tables = {"optimizers": optimizers, "recompute": {"enabled": recompute}}
    settings = make_settings(weight_decay=0.1, **tables)
    before = values(training)
    step(models, settings)
    frozen = {path for path in before if "embedding" in path or "transformer_layer_0" in path}
    others = {path for path in before if path not in frozen and "pooled" not in path}
    assert moved(before, training) >= {path for path in others if path.endswith("kernel")}
    assert not moved(before, training) & frozen and len(frozen) > 10
    assert not any(path in training.optimizer.rate_factors for path in frozen)
    slots = {tuple(variable.shape) for variable in training.optimizer.variables}
    assert tuple(encoder.token_embedding.embeddings.shape) not in slots
    # Given back, and compiled anew, they learn.
    for layer in encoder.layers:
        layer.trainable = True
    before = values(training)
    step(models, make_settings(weight_decay=0.1))
    assert encoder.token_embedding.embeddings.path in moved(before, training)
    assert any("transformer_layer_0" in path for path in moved(before, training))


def test_frozen_layers_that_are_not_there():
    models = bert_models()
    encoder = models.encoder
    with pytest.raises(InputError, match="has 3 with its embeddings: set it to 3"):
        freeze_layers(encoder, 4)
    freeze_layers(encoder, 0)
    assert all(layer.trainable for layer in encoder.layers)
    freeze_layers(encoder, 1)
    with pytest.raises(InputError, match="frozen_layers = 0"):
        compile_models(make_settings(regularization={"adversary": "fgm"}), models, 10)


def test_models_share_layers_and_parts_are_found_and_replaced():
    models = bert_models()
    training, inference, encoder = models.training, models.inference, models.encoder
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


def test_a_loss_without_examples_is_named():
    """A mean over the batch: replicas and micro-batches would average it again."""
    tokens = keras.Input((4,), name="tokens")
    each = keras.layers.Dense(1, name="dense")(tokens)[:, 0]
    losses = {"good_loss": each, "own_loss": keras.ops.mean(each)}
    training = TrainingModel({"tokens": tokens}, losses, name="training")
    with pytest.raises(InputError, match=r"the loss own_loss has the shape \(\), not \[batch\]"):
        training.compile(keras.optimizers.SGD(0.1))
