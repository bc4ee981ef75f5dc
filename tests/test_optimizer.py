"""Optimizers and schedules against NumPy."""

import math

import keras
import numpy as np
import projects  # noqa: F401  makes `common` importable
import pytest
import tensorflow as tf
from pydantic import ValidationError

from common.encoder import BertEncoder
from common.errors import InputError
from common.optimizers import (
    EPSILON,
    KINDS,
    AdamW,
    FineTuning,
    Lamb,
    Muon,
    decayed_rates,
    make_optimizer,
    most_square,
)
from common.schedules import WarmUpThenDecay
from common.settings import CommonSettings, RecordSettings, read_points

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


def make(kind: str, rate, **arguments) -> FineTuning:
    """Return an optimizer as the settings make it."""
    own = {"muon": {"exclude_layers": [f"^{name}$" for name in HEAD]}}.get(kind, {})
    if kind in {"adamw", "lamb", "muon"}:
        own["epsilon"] = EPSILON
    return KINDS[kind](rate, rates=dict.fromkeys(HEAD, 5.0), **own, **arguments)


CASES = {
    "plain": {"decay": 0.0, "clip_norm": 0.0},
    "decay": {"decay": 0.1, "clip_norm": 0.5},
    "lookahead": {"decay": 0.1, "clip_norm": 0.5, "lookahead": 3},
    "lazy": {"decay": 0.1, "clip_norm": 0.5, "lazy": (TABLE,)},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_ten_steps_agree_with_numpy(kind, sparse, case):
    if case == "lazy" and kind in {"lamb", "adafactor"}:
        pytest.skip("the settings refuse it: their steps depend on the whole table")
    random = np.random.default_rng(3)
    variables = make_variables(random)
    start = {variable.path: variable.numpy() for variable in variables}
    scheduled = case != "plain"
    rate = WarmUpThenDecay(RATE, STEPS, 3) if scheduled else RATE
    optimizer = make(kind, rate, **CASES[case])
    expected_rate = (lambda step: schedule_value("linear", step + 1)) if scheduled else RATE
    settings = {"lazy": (), "lookahead": 0, **CASES[case]}
    reference = Reference(kind, start, expected_rate, dict.fromkeys(HEAD, 5.0), **settings)
    for step in range(STEPS):
        gradients = make_gradients(random, step, sparse)
        optimizer.apply(list(map(keras.ops.convert_to_tensor, gradients.values())), variables)
        reference.apply(gradients)
    largest = max(np.abs(v.numpy() - reference.values[v.path]).max() for v in variables)
    assert largest < 1e-6
    assert all(np.abs(v.numpy() - start[v.path]).max() > 1e-4 for v in variables)


@pytest.mark.parametrize("kind", ["adamw", "lion", "muon"])
def test_a_row_that_waits_is_as_if_it_had_not_been_there(kind):
    """A row with gradients in steps 1 and 4 moves as one whose training has those steps alone."""
    tables = []
    for steps in ((1, 0, 0, 1), (1, 1)):
        variable = keras.Variable(np.ones((2, 3), "float32"), name="embeddings")
        own = {"decay": 0.0, "clip_norm": 0.0, "lazy": (variable.path,)}
        if kind == "lion":
            optimizer = KINDS[kind](RATE, **own)
        else:
            # Adam corrects by the count of all steps: with equal betas of 0 there is no history.
            names = ("beta_1", "beta_2") if kind == "adamw" else ("adam_beta_1", "adam_beta_2")
            optimizer = KINDS[kind](RATE, **own, **dict.fromkeys(names, 0.0))
        for present in steps:
            gradient = np.array([[1, 2, 3], [3, 2, 1]], "float32") * [[1], [present]]
            optimizer.apply([tf.constant(gradient, "float32")], [variable])
        tables.append(variable.numpy())
    np.testing.assert_allclose(tables[0][1], tables[1][1], rtol=1e-6)
    assert np.abs(tables[0][0] - tables[1][0]).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradient_only_what_decays_moves(kind):
    variables = make_variables(np.random.default_rng(1))
    start = [variable.numpy() for variable in variables]
    optimizer = make(kind, 0.1, decay=0.5)
    optimizer.apply([keras.ops.zeros(shape) for shape in SHAPES.values()], variables)
    for variable, before in zip(variables, start, strict=True):
        rate = 0.5 if variable.path in HEAD else 0.1
        kept = 1 - rate * 0.5
        if kind == "lamb":  # the decay is the step, and as long as the weights
            kept = 1 - rate
        if variable.name not in {"kernel", "embeddings"}:
            kept = 1.0
        np.testing.assert_allclose(variable.numpy(), before * kept, rtol=1e-5)


def test_names_that_lamb_does_not_adapt():
    moves = []
    for no_adaptation in (("bias", "gamma", "beta"), ("kernel", "embeddings")):
        variables = make_variables(np.random.default_rng(1))
        start = [variable.numpy() for variable in variables]
        optimizer = Lamb(RATE, decay=0.0, clip_norm=0.0, no_adaptation=no_adaptation)
        gradients = [keras.ops.ones(shape) for shape in SHAPES.values()]
        optimizer.apply(gradients, variables)
        moves.append(
            {
                variable.path: np.linalg.norm(variable.numpy() - before) / np.linalg.norm(before)
                for variable, before in zip(variables, start, strict=True)
            }
        )
    for path in SHAPES:
        adapted = moves[0 if path.endswith(("kernel", "embeddings")) else 1][path]
        assert adapted == pytest.approx(RATE, rel=1e-4)


def test_matrices_of_muon():
    assert most_square((384, 12, 32)) == (384, 384)
    assert most_square((12, 32, 384)) == (384, 384)
    assert most_square((384, 1536)) == (384, 1536)
    optimizer = Muon(RATE, exclude_layers=["^head/dense/kernel$"])
    variables = make_variables(np.random.default_rng(1))
    by_adam = {v.path for v in variables if optimizer._should_use_adamw(v)}
    assert by_adam == set(SHAPES) - {"encoder/query/kernel", "encoder/dense/kernel"}


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_round(kind):
    """Five steps, a copy of the state in another optimizer, five steps: as ten steps."""
    results = []
    for interrupted in (False, True):
        random = np.random.default_rng(5)
        variables = make_variables(random)
        optimizer = make(kind, RATE, lookahead=4, use_ema=True)
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


@pytest.mark.parametrize("shape", ["linear", "cosine", "polynomial", "piecewise", "constant"])
def test_schedule(shape):
    points = read_points("0:1, 0.5:0.4, 0.9:0.05")
    schedule = WarmUpThenDecay(RATE, STEPS, 3, shape, 2.5, points)
    again = WarmUpThenDecay.from_config(schedule.get_config())
    rates = [float(schedule(step)) for step in range(STEPS + 3)]
    assert rates == [float(again(step)) for step in range(STEPS + 3)]
    expected = [schedule_value(shape, step + 1) for step in range(STEPS + 3)]
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


@pytest.mark.parametrize("kind", KINDS)
def test_config_goes_round(kind):
    optimizer = make(
        kind,
        WarmUpThenDecay(1e-3, 50, 5, "piecewise", points=[(0, 1), (1, 0.5)]),
        decay=0.2,
        clip_norm=0.3,
        no_decay=("bias",),
        lazy=(TABLE,),
        lookahead=6,
        lookahead_share=0.7,
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is KINDS[kind]
    assert again.get_config() == optimizer.get_config()
    assert again.rates == dict.fromkeys(HEAD, 5.0) and again.lazy == (TABLE,)
    assert [float(again._learning_rate(step)) for step in (0, 20)] == [
        float(optimizer._learning_rate(step)) for step in (0, 20)
    ]


def tiny_model() -> tuple[keras.Model, keras.Model]:
    """Return a model over an encoder of two layers, and the encoder."""
    encoder = BertEncoder(
        vocabulary_size=20,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=10,
        name="encoder",
    )
    hidden = encoder(encoder.input)["sequence_output"]
    outputs = keras.layers.Dense(3, name="transitions")(keras.layers.Dense(4, name="head")(hidden))
    return keras.Model(encoder.input, outputs), encoder


@pytest.mark.parametrize("kind", KINDS)
def test_optimizer_of_the_settings(kind):
    model, encoder = tiny_model()
    settings = CommonSettings(
        optimizer=kind,
        learning_rate=1e-4,
        head_learning_rate=1e-3,
        layer_decay=0.5,
        warm_up=0.25,
        no_decay="bias",
        lookahead=5,
        ema=0.9,
    )
    optimizer = make_optimizer(settings, model, encoder, 40, 2.0, {"transitions": 1e-2})
    optimizer.build(model.trainable_variables)
    rates = {
        variable.path: optimizer.rates[variable.path] for variable in model.trainable_variables
    }
    assert len(rates) == len(model.trainable_variables)
    assert {rate for path, rate in rates.items() if "transformer_layer_0" in path} == {0.5}
    assert {rate for path, rate in rates.items() if "transformer_layer_1" in path} == {1.0}
    assert {rate for path, rate in rates.items() if "embedding" in path} == {0.25}
    head, transitions = (model.get_layer(name).kernel.path for name in ("head", "transitions"))
    assert rates[head] == pytest.approx(10) and rates[transitions] == pytest.approx(100)
    assert float(optimizer._learning_rate(9)) == pytest.approx(2e-4)
    assert optimizer.clip_norm == 1.0 and optimizer.no_decay == ("bias",)
    assert optimizer.use_ema and optimizer.ema_momentum == 0.9 and optimizer.lookahead == 5
    if kind == "muon":
        assert not optimizer._should_use_adamw(
            encoder.transformer_layers[0]._feedforward_output_dense.kernel
        )
        assert optimizer._should_use_adamw(model.get_layer("head").kernel)


def test_lazy_embeddings_are_all_tables():
    model, encoder = tiny_model()
    settings = CommonSettings(lazy_embeddings=True)
    lazy = make_optimizer(settings, model, encoder, 10).lazy
    assert sorted(path.rpartition("/")[0].rpartition("/")[2] for path in lazy) == [
        "segment_embedding",
        "token_embedding",
    ]


def test_layer_decay_wants_known_layers():
    encoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(InputError, match="set layer_decay = 1"):
        decayed_rates(encoder, 0.9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "piecewise"}, "set both, or neither"),
        ({"schedule_points": "0:1, 1:0"}, "set both, or neither"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 1"}, "no list of points"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 0:2"}, "must rise"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 2:0"}, "must rise"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 1:-1"}, "not be below 0"),
        ({"optimizer": "lamb", "lazy_embeddings": True}, "whole table"),
        ({"optimizer": "adafactor", "lazy_embeddings": True}, "whole table"),
        ({"layer_decay": 0.0}, "greater than 0"),
        ({"gradient_penalty": 1.0, "recompute": True}, "second derivatives"),
        ({"unlabelled_file": "sample/test.jsonl"}, "virtual_adversary = 0"),
    ],
)
def test_settings_that_contradict_each_other(settings, message):
    with pytest.raises(ValidationError, match=message):
        RecordSettings(**settings)
