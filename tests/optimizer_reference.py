"""Optimizers and schedules as their papers have them, in NumPy, and what they are tried on."""

import math

import keras
import numpy as np
import tensorflow as tf

from core.fast.adamw import EPSILON
from core.optimizer import WarmUpThenDecay

# A table, a projection of attention, matrices both high and wide, and what has one axis.
SHAPES = {
    "encoder/token_embedding/embeddings": (9, 4),
    "encoder/query/kernel": (4, 2, 2),
    "encoder/dense/kernel": (4, 3),
    "encoder/dense/bias": (3,),
    "encoder/norm/gamma": (3,),
    "encoder/norm/beta": (3,),
    "head/dense/kernel": (3, 2),
    "head/dense/bias": (2,),
}
TABLE = "encoder/token_embedding/embeddings"
HEAD = [name for name in SHAPES if name.startswith("head")]
STEPS = 10
RATE = 2e-3


def make_variables(random) -> list[keras.Variable]:
    """Return variables whose paths are the keys of SHAPES."""
    variables = []
    for path, shape in SHAPES.items():
        part, layer, name = path.split("/")
        with keras.name_scope(part), keras.name_scope(layer):
            value = (0.3 * random.normal(size=shape)).astype("float32")
            variables.append(keras.Variable(value, name=name))
        assert variables[-1].path == path
    return variables


def make_gradients(random, step: int, sparse: bool) -> dict[str, np.ndarray]:
    """Return gradients, some long and some short; sparse: of few rows of the table."""
    size = 10.0 ** (step % 3 - 2)
    gradients = {
        name: (random.normal(size=shape) * size).astype("float32") for name, shape in SHAPES.items()
    }
    if sparse:
        gradients[TABLE][random.permutation(9)[:6]] = 0.0
    return gradients


class Reference:
    """The papers' algorithms in float64; `moves` has one function for each optimizer."""

    def __init__(self, kind, values, rate, rates, decay, clip_norm, lazy, lookahead):
        self.kind, self.rate, self.rates, self.decay = kind, rate, rates, decay
        self.clip_norm, self.lazy, self.lookahead = clip_norm, lazy, lookahead
        self.values = {name: value.astype("float64") for name, value in values.items()}
        self.slow = {name: value.copy() for name, value in self.values.items()}
        self.state = {name: {} for name in values}
        self.count = 0

    def apply(self, gradients):
        norm = math.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        shrink = self.clip_norm / norm if self.clip_norm and norm > self.clip_norm else 1.0
        rate = self.rate(self.count) if callable(self.rate) else self.rate
        self.count += 1
        for name, gradient in gradients.items():
            gradient = gradient.astype("float64") * shrink
            decay = self.decay if name.endswith(("kernel", "embeddings")) else 0.0
            before = self.values[name].copy()
            moments = {key: value.copy() for key, value in self.state[name].items()}
            self.values[name] = getattr(self, self.kind)(
                name, before, gradient, rate * self.rates.get(name, 1.0), decay
            )
            if name in self.lazy:
                absent = ~np.any(gradient != 0, axis=-1)
                self.values[name][absent] = before[absent]
                for key, value in self.state[name].items():
                    value[absent] = moments[key][absent] if key in moments else 0.0
            if self.lookahead and self.count % self.lookahead == 0:
                self.slow[name] += 0.5 * (self.values[name] - self.slow[name])
                self.values[name] = self.slow[name].copy()

    def mean(self, name, key, value, beta):
        old = self.state[name].get(key, np.zeros_like(value))
        self.state[name][key] = beta * old + (1 - beta) * value
        return self.state[name][key]

    def adam(self, name, gradient, epsilon_inside: bool) -> np.ndarray:
        first = self.mean(name, "first", gradient, 0.9)
        second = self.mean(name, "second", gradient**2, 0.999)
        above, below = 1 - 0.9**self.count, 1 - 0.999**self.count
        if epsilon_inside:
            return (first / above) / (np.sqrt(second / below) + EPSILON)
        return first * math.sqrt(below) / above / (np.sqrt(second) + EPSILON)

    def adamw(self, name, value, gradient, rate, decay):
        """Loshchilov and Hutter 2019, algorithm 2; epsilon outside of the bias correction."""
        return value - rate * decay * value - rate * self.adam(name, gradient, False)

    def lamb(self, name, value, gradient, rate, decay):
        """You et al. 2020, algorithm 2."""
        step = self.adam(name, gradient, True) + decay * value
        if name.endswith(("kernel", "embeddings")):
            rate = rate * np.linalg.norm(value) / np.linalg.norm(step)
        return value - rate * step

    def lion(self, name, value, gradient, rate, decay):
        """Chen et al. 2023, algorithm 2."""
        momentum = self.state[name].get("momentum", np.zeros_like(value))
        step = np.sign(0.9 * momentum + 0.1 * gradient)
        self.state[name]["momentum"] = 0.99 * momentum + 0.01 * gradient
        return value - rate * decay * value - rate * step

    def adafactor(self, name, value, gradient, rate, decay):
        """Shazeer and Stern 2018, algorithms 4 and 5, with steps relative to the parameter."""
        value = value - rate * decay * value
        beta = 1 - self.count**-0.8
        squares = gradient**2 + 1e-30
        if value.ndim > 1:
            rows = self.mean(name, "rows", squares.mean(axis=-1), beta)
            columns = self.mean(name, "columns", squares.mean(axis=-2), beta)
            second = rows[..., None] * columns[..., None, :] / rows.mean(-1)[..., None, None]
        else:
            second = self.mean(name, "second", squares, beta)
        step = gradient / np.sqrt(second)
        step /= max(1.0, np.sqrt(np.mean(step**2)))
        size = max(1e-3, np.sqrt(np.mean(value**2))) * min(rate, self.count**-0.5)
        return value - size * step

    def muon(self, name, value, gradient, rate, decay):
        """Liu et al. 2025: Nesterov's momentum, five iterations, the length of Adam's steps."""
        value = value - rate * decay * value
        if name in HEAD or not name.endswith("kernel"):
            return value - rate * self.adam(name, gradient, False)
        momentum = self.state[name].get("momentum", np.zeros_like(value)) * 0.95 + gradient
        self.state[name]["momentum"] = momentum
        matrix = (gradient + 0.95 * momentum).reshape(4, -1)
        matrix /= np.linalg.norm(matrix) + 1e-7
        tall = matrix.shape[0] > matrix.shape[1]
        matrix = matrix.T if tall else matrix
        for _ in range(5):
            product = matrix @ matrix.T
            matrix = 3.4445 * matrix + (-4.7750 * product + 2.0315 * product @ product) @ matrix
        matrix = matrix.T if tall else matrix
        return value - rate * 0.2 * math.sqrt(max(matrix.shape)) * matrix.reshape(value.shape)


def schedule_value(shape: str, number: int, peak=RATE, steps=STEPS, warm_up=3) -> float:
    """Return the rate of the update with a number, from 1."""
    if number <= warm_up:
        return peak * number / warm_up
    done = min((number - warm_up) / (steps - warm_up + 1), 1.0)
    falls = {
        "linear": 1 - done,
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "polynomial": (1 - done) ** 2.5,
        "piecewise": np.interp(done, [0.0, 0.5, 0.9], [1.0, 0.4, 0.05]),
        "constant": 1.0,
    }
    return peak * falls[shape]


def assert_ten_steps_agree(make, kind: str, sparse: bool, scheduled: bool, **options) -> None:
    """Compare ten updates with those of the reference.

    Args:
        make: from a rate and options to an optimizer.
        kind: a function of the reference.
        sparse: few rows of the table have a gradient.
        scheduled: the rate rises and falls; or else it stays.
        **options: `decay`, `clip_norm`, `lazy`, `lookahead`.
    """
    random = np.random.default_rng(3)
    variables = make_variables(random)
    start = {variable.path: variable.numpy() for variable in variables}
    optimizer = make(WarmUpThenDecay(RATE, STEPS, 3) if scheduled else RATE, **options)
    rate = (lambda step: schedule_value("linear", step + 1)) if scheduled else RATE
    settings = {"lazy": (), "lookahead": 0, **options}
    reference = Reference(kind, start, rate, dict.fromkeys(HEAD, 5.0), **settings)
    for step in range(STEPS):
        gradients = make_gradients(random, step, sparse)
        optimizer.apply(list(map(keras.ops.convert_to_tensor, gradients.values())), variables)
        reference.apply(gradients)
    largest = max(np.abs(v.numpy() - reference.values[v.path]).max() for v in variables)
    assert largest < 1e-6
    assert all(np.abs(v.numpy() - start[v.path]).max() > 1e-4 for v in variables)


def assert_only_what_decays_moves(optimizer, kept: float, kept_of_head: float) -> None:
    """Make an update without a gradient; `kept`: of each weight that decays."""
    variables = make_variables(np.random.default_rng(1))
    start = [variable.numpy() for variable in variables]
    optimizer.apply([keras.ops.zeros(shape) for shape in SHAPES.values()], variables)
    for variable, before in zip(variables, start, strict=True):
        share = kept_of_head if variable.path in HEAD else kept
        if variable.name not in {"kernel", "embeddings"}:
            share = 1.0
        np.testing.assert_allclose(variable.numpy(), before * share, rtol=1e-5)


def assert_state_goes_round(make) -> None:
    """Make five steps, a copy of the state in another optimizer, five steps: as ten steps.

    Args:
        make: returns an optimizer.
    """
    results = []
    for interrupted in (False, True):
        random = np.random.default_rng(5)
        variables = make_variables(random)
        optimizer = make()
        optimizer.build(variables)
        for step in range(STEPS):
            if interrupted and step == 5:
                state = [variable.numpy() for variable in optimizer.variables]
                optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
                optimizer.build(variables)
                for variable, value in zip(optimizer.variables, state, strict=True):
                    variable.assign(value)
            gradients = make_gradients(random, step, sparse=True)
            optimizer.apply([tf.constant(array) for array in gradients.values()], variables)
        averages = optimizer._model_variables_moving_average
        results.append([variable.numpy() for variable in [*variables, *averages]])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_config_goes_round(optimizer):
    """Compare an optimizer with one that is made of its config; return that."""
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    assert again.rate_factors == dict.fromkeys(HEAD, 5.0)
    assert [float(again._learning_rate(step)) for step in (0, 20)] == [
        float(optimizer._learning_rate(step)) for step in (0, 20)
    ]
    return again
