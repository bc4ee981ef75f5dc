"""AdamW and its schedule against NumPy."""

import math

import keras
import numpy as np
import projects  # noqa: F401  makes `common` importable
import pytest

from common.optimizers import AdamW, WarmUpThenDecay, make_optimizer
from common.settings import CommonSettings

SHAPES = {
    "encoder/dense/kernel": (4, 3),
    "encoder/dense/bias": (3,),
    "encoder/norm/gamma": (3,),
    "encoder/norm/beta": (3,),
    "head/dense/kernel": (3, 2),
    "head/dense/bias": (2,),
}
ENCODER = tuple(name for name in SHAPES if name.startswith("encoder"))
STEPS = 10


def make_variables(random) -> list[keras.Variable]:
    """Return variables whose paths are the keys of SHAPES."""
    variables = []
    for path, shape in SHAPES.items():
        part, layer, name = path.split("/")
        with keras.name_scope(part), keras.name_scope(layer):
            value = random.normal(size=shape).astype("float32")
            variables.append(keras.Variable(value, name=name))
        assert variables[-1].path == path
    return variables


class NumpyAdamW:
    """Loshchilov and Hutter's algorithm 2 in float64, epsilon outside of the bias correction."""

    def __init__(self, values, rate, decay, clip_norm, head_factor, epsilon):
        self.values = {name: value.astype("float64") for name, value in values.items()}
        self.first = {name: np.zeros_like(value) for name, value in self.values.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.values.items()}
        self.rate, self.decay, self.clip_norm = rate, decay, clip_norm
        self.head_factor, self.epsilon = head_factor, epsilon
        self.count = 0

    def apply(self, gradients):
        norm = math.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        shrink = self.clip_norm / norm if self.clip_norm and norm > self.clip_norm else 1.0
        rate = self.rate(self.count) if callable(self.rate) else self.rate
        self.count += 1
        for name, gradient in gradients.items():
            gradient = gradient.astype("float64") * shrink
            rate_here = rate * (1 if name.startswith("encoder") else self.head_factor)
            if name.endswith("kernel"):
                self.values[name] -= rate_here * self.decay * self.values[name]
            self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
            self.second[name] = 0.999 * self.second[name] + 0.001 * gradient**2
            corrected = rate_here * math.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
            self.values[name] -= (
                corrected * self.first[name] / (np.sqrt(self.second[name]) + self.epsilon)
            )


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
@pytest.mark.parametrize("scheduled", [False, True])
def test_ten_steps_agree_with_numpy(decay, clip_norm, scheduled):
    random = np.random.default_rng(3)
    variables = make_variables(random)
    start = {variable.path: variable.numpy() for variable in variables}
    rate = WarmUpThenDecay(1e-2, STEPS, 3) if scheduled else 1e-2
    settings = {"decay": decay, "clip_norm": clip_norm, "head_factor": 5.0, "epsilon": 1e-6}
    optimizer = AdamW(rate, encoder_variables=ENCODER, **settings)
    expected_rate = (lambda step: float(schedule_value("linear", step + 1))) if scheduled else 1e-2
    reference = NumpyAdamW(start, expected_rate, **settings)
    for step in range(STEPS):
        size = 10.0 ** (step % 3 - 2)  # some steps are clipped, some are not
        gradients = {
            name: (random.normal(size=shape) * size).astype("float32")
            for name, shape in SHAPES.items()
        }
        optimizer.apply(list(map(keras.ops.convert_to_tensor, gradients.values())), variables)
        reference.apply(gradients)
    largest = max(np.abs(v.numpy() - reference.values[v.path]).max() for v in variables)
    print(f"largest difference {largest:.1e}")
    assert largest < 1e-6
    assert all(np.abs(v.numpy() - start[v.path]).max() > 1e-3 for v in variables)


def test_without_gradient_only_kernels_decay():
    variables = make_variables(np.random.default_rng(1))
    start = [variable.numpy() for variable in variables]
    optimizer = AdamW(0.1, decay=0.5, encoder_variables=ENCODER, head_factor=2.0)
    optimizer.apply([keras.ops.zeros(shape) for shape in SHAPES.values()], variables)
    for variable, before in zip(variables, start, strict=True):
        rate = 0.1 if variable.path in ENCODER else 0.2
        kept = 1 - rate * 0.5 if variable.name == "kernel" else 1.0
        np.testing.assert_allclose(variable.numpy(), before * kept, rtol=1e-6)


def schedule_value(shape: str, number: int, peak=1e-2, steps=STEPS, warm_up=3) -> float:
    """Return the rate of the update with a number, from 1."""
    if number <= warm_up:
        return peak * number / warm_up
    done = min((number - warm_up) / (steps - warm_up + 1), 1.0)
    falls = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}
    return peak * falls[shape]


@pytest.mark.parametrize("shape", ["linear", "cosine", "constant"])
def test_schedule(shape):
    schedule = WarmUpThenDecay(1e-2, STEPS, 3, shape)
    rates = [float(schedule(step)) for step in range(STEPS + 3)]
    expected = [schedule_value(shape, step + 1) for step in range(STEPS + 3)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    assert rates[0] == pytest.approx(1e-2 / 3), "the first update is not lost"
    assert max(rates) == pytest.approx(1e-2)


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
    optimizer = AdamW(
        WarmUpThenDecay(1e-3, 50, 5, "cosine"),
        decay=0.2,
        clip_norm=0.3,
        encoder_variables=ENCODER,
        head_factor=7.0,
        no_decay=("bias",),
        epsilon=1e-5,
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, AdamW)
    assert again.get_config() == optimizer.get_config()
    assert again.encoder_variables == frozenset(ENCODER)
    assert [float(again._learning_rate(step)) for step in (0, 20)] == [
        float(optimizer._learning_rate(step)) for step in (0, 20)
    ]


def test_optimizer_of_the_settings():
    encoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="inside")])
    settings = CommonSettings(learning_rate=1e-4, head_learning_rate=1e-3, warm_up=0.25)
    optimizer = make_optimizer(settings, encoder, steps=40, rate_factor=2.0)
    assert optimizer.head_factor == pytest.approx(10)
    assert optimizer.encoder_variables == {variable.path for variable in encoder.variables}
    assert float(optimizer._learning_rate(9)) == pytest.approx(2e-4)
    assert optimizer.clip_norm == 1.0
