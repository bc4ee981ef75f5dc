"""AdamW and its schedule against NumPy."""

import functools

import keras
import numpy as np
import pytest
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
from small_models import bert_encoder, make_settings, with_head

from core.train.optimizer import EPSILON, AdamW, WarmUpThenDecay, make_optimizer

make = functools.partial(AdamW, rates=dict.fromkeys(HEAD, 5.0), epsilon=EPSILON)
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
    settings = make_settings(warm_up=0.25, weight_decay=0.3, **rates)
    optimizer = make_optimizer(settings, models, 40, 2.0)
    optimizer.build(model.trainable_variables)
    assert type(optimizer) is AdamW and optimizer.epsilon == EPSILON
    rates = {
        variable.path: optimizer.rates[variable.path] for variable in model.trainable_variables
    }
    within = {variable.path for variable in encoder.trainable_variables}
    assert {rates[path] for path in within} == {1.0} and len(within) > 20
    head, transitions = (model.get_layer(name).kernel.path for name in ("head", "transitions"))
    assert rates[head] == pytest.approx(10) and rates[transitions] == pytest.approx(100)
    assert float(optimizer._learning_rate(9)) == pytest.approx(2e-4)
    assert optimizer.clip_norm == 1.0 and optimizer.decay == 0.3 and not optimizer.use_ema
    assert optimizer.no_decay == ("bias", "gamma", "beta")
