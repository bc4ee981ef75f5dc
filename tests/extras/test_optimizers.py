"""Optimizers and schedules against NumPy, and in trainings that are resumed and saved."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from optimizer_reference import (
    HEAD,
    RATE,
    SHAPES,
    STEPS,
    TABLE,
    assert_config_goes_round,
    assert_only_what_decays_moves,
    assert_state_goes_round,
    assert_ten_steps_agree,
    make_gradients,
    make_variables,
    schedule_value,
)
from projects import run, run_workers
from pydantic import ValidationError
from small_models import (
    EPOCHS,
    LENGTH,
    assert_equal,
    bert_encoder,
    make_settings,
    plan_steps,
    small_encoder,
    train,
    with_head,
)
from small_models import STEPS as EPOCH_STEPS

from core.base.errors import InputError
from core.fast.adamw import EPSILON, AdamW, FineTuning
from core.optimizer import make_optimizer
from core.step import Models
from extras.optimizers.schedules import ShapedSchedule
from extras.optimizers.settings import read_points
from extras.optimizers.toolbox import KINDS, Lamb, Muon, decayed_rates, most_square


def make(kind: str, rate, **arguments) -> FineTuning:
    """Return an optimizer as the settings make it."""
    own = {"muon": {"exclude_layers": [f"^{name}$" for name in HEAD]}}.get(kind, {})
    if kind in {"adamw", "lamb", "muon"}:
        own["epsilon"] = EPSILON
    return KINDS[kind](rate, rate_factors=dict.fromkeys(HEAD, 5.0), **own, **arguments)


CASES = {
    "plain": {"decay": 0.0, "clip_norm": 0.0},
    "decay": {"decay": 0.1, "clip_norm": 0.5},
    "lookahead": {"decay": 0.1, "clip_norm": 0.5, "lookahead": 3},
    "lazy": {"decay": 0.1, "clip_norm": 0.5, "lazy": (TABLE,)},
}


@pytest.mark.shown("muon-True", "adafactor-True", "lamb-False")
@pytest.mark.trains
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_ten_steps_agree_with_numpy(kind, sparse, case):
    if case == "lazy" and kind in {"lamb", "adafactor"}:
        pytest.skip("the settings refuse it: their steps depend on the whole table")
    this = functools.partial(make, kind)
    assert_ten_steps_agree(this, kind, sparse, case != "plain", **CASES[case])


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradient_only_what_decays_moves(kind):
    optimizer = make(kind, 0.1, decay=0.5)
    if kind == "lamb":  # the decay is the step, and as long as the weights
        assert_only_what_decays_moves(optimizer, 1 - 0.1, 1 - 0.5)
    else:
        assert_only_what_decays_moves(optimizer, 1 - 0.1 * 0.5, 1 - 0.5 * 0.5)


def test_adamw_of_the_toolbox_is_that_of_core():
    """To the last bit: a table that asks for something else changes only that."""
    weights = []
    for kind in (AdamW, KINDS["adamw"]):
        random = np.random.default_rng(3)
        variables = make_variables(random)
        optimizer = kind(RATE, rate_factors=dict.fromkeys(HEAD, 5.0), decay=0.1, epsilon=EPSILON)
        for step in range(STEPS):
            gradients = make_gradients(random, step, sparse=True)
            optimizer.apply([tf.constant(array) for array in gradients.values()], variables)
        weights.append([variable.numpy() for variable in variables])
    assert_equal(*weights)


@pytest.mark.parametrize("kind", ["adamw", "lion", "muon"])
def test_a_row_that_waits_is_as_if_it_had_not_been_there(kind):
    """A row with gradients in steps 1 and 4 moves as in a training of only those steps."""
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


@pytest.mark.shown("muon")
@pytest.mark.trains
@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_round(kind):
    assert_state_goes_round(functools.partial(make, kind, RATE, lookahead=4, use_ema=True))


@pytest.mark.parametrize("shape", ["linear", "cosine", "polynomial", "piecewise", "constant"])
def test_schedule(shape):
    points = read_points("0:1, 0.5:0.4, 0.9:0.05")
    schedule = ShapedSchedule(RATE, STEPS, 3, shape, 2.5, points)
    again = ShapedSchedule.from_config(schedule.get_config())
    rates = [float(schedule(step)) for step in range(STEPS + 3)]
    assert rates == [float(again(step)) for step in range(STEPS + 3)]
    expected = [schedule_value(shape, step + 1) for step in range(STEPS + 3)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-9)
    assert rates[0] == pytest.approx(RATE / 3), "the first update is not lost"
    assert max(rates) == pytest.approx(RATE)


@pytest.mark.parametrize("kind", KINDS)
def test_config_goes_round(kind):
    again = assert_config_goes_round(
        make(
            kind,
            ShapedSchedule(1e-3, 50, 5, "piecewise", points=[(0, 1), (1, 0.5)]),
            decay=0.2,
            clip_norm=0.3,
            no_decay=("bias",),
            lazy=(TABLE,),
            lookahead=6,
            lookahead_share=0.7,
        )
    )
    assert type(again) is KINDS[kind] and again.lazy == (TABLE,)


def optimizer_of(settings, models: Models, steps: int, replicas: int = 1):
    """Return the optimizer of a training whose rates grow with its replicas."""
    training = plan_steps(settings, models, steps)
    training.settings.devices.scale_learning_rate = True
    training.strategy = SimpleNamespace(num_replicas_in_sync=replicas)
    training.prepare()
    return make_optimizer(training)


@pytest.mark.parametrize("kind", KINDS)
def test_optimizer_of_the_settings(kind):
    models = with_head(bert_encoder())
    model, encoder = models.training, models.encoder
    settings = make_settings(
        learning_rate=1e-4,
        head_learning_rate=1e-3,
        warm_up=0.25,
        optimizers={"kind": kind, "layer_decay": 0.5, "no_decay": "bias", "lookahead": 5},
        averaging={"ema": 0.9},
    )
    optimizer = optimizer_of(settings, models, 40, replicas=2)
    optimizer.build(model.trainable_variables)
    rates = {
        variable.path: optimizer.rate_factors[variable.path]
        for variable in model.trainable_variables
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


def test_the_table_as_it_is_leaves_the_optimizer_to_core():
    models = with_head(bert_encoder())
    assert type(optimizer_of(make_settings(), models, 10)) is AdamW


def test_lazy_embeddings_are_all_tables():
    settings = make_settings(optimizers={"lazy_embeddings": True})
    lazy = optimizer_of(settings, with_head(bert_encoder()), 10).lazy
    assert sorted(path.rpartition("/")[0].rpartition("/")[2] for path in lazy) == [
        "segment_embedding",
        "token_embedding",
    ]


def test_layer_decay_wants_known_layers():
    encoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(InputError, match="set layer_decay = 1"):
        decayed_rates(encoder, 0.9)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"schedule": "piecewise"}, "set both, or neither"),
        ({"schedule_points": "0:1, 1:0"}, "set both, or neither"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 1"}, "not a list of points"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 0:2"}, "must rise"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 2:0"}, "must rise"),
        ({"schedule": "piecewise", "schedule_points": "0:1, 1:-1"}, "not be below 0"),
        ({"kind": "lamb", "lazy_embeddings": True}, "whole table"),
        ({"kind": "adafactor", "lazy_embeddings": True}, "whole table"),
        ({"layer_decay": 0.0}, "greater than 0"),
    ],
)
def test_settings_that_contradict_each_other(table, message):
    with pytest.raises(ValidationError, match=message):
        make_settings(optimizers=table)


# ---------------------------------------------------------------- in a training


@pytest.mark.shown("muon")
@pytest.mark.trains
@pytest.mark.parametrize("kind", KINDS)
def test_each_optimizer_resumes_to_the_last_bit(kind, tmp_path):
    """Nine steps at once, and five, then four in a model made anew."""
    settings = make_settings(
        optimizers={
            "kind": kind,
            "lazy_embeddings": kind in {"adamw", "lion", "muon"},
            "lookahead": 4,
            "schedule": "cosine",
        },
        regularization={"adversary": "fgm"},
        averaging={"ema": 0.8},
    )
    run, whole, *_ = train(settings, tmp_path / "whole", [0.1] * 3)
    assert run.position.updates == EPOCHS * EPOCH_STEPS
    run, first, *_ = train(settings, tmp_path / "parts", [0.1] * 3, interrupted=5)
    assert run.position.updates == 5
    run, second, *_ = train(settings, tmp_path / "parts", [0.1] * 3)
    assert run.position.updates == EPOCHS * EPOCH_STEPS
    assert_equal(whole.variables, second.variables)
    assert_equal(whole.optimizer.variables, second.optimizer.variables)
    pairs = zip(first.get_weights(), second.get_weights(), strict=True)
    assert max(np.abs(one - other).max() for one, other in pairs) > 1e-5


@pytest.mark.shown("muon")
@pytest.mark.trains
@pytest.mark.parametrize("kind", KINDS)
def test_each_optimizer_is_saved_with_a_model(kind, tmp_path):
    """Keras's own file: a model and its optimizer, loaded, go on to the last bit."""
    keras.utils.set_random_seed(1)
    settings = make_settings(optimizers={"kind": kind, "lookahead": 3}, averaging={"ema": 0.8})
    encoder = small_encoder(dropout=0.0)
    model = keras.Model(encoder.input, keras.layers.Dense(2, name="head")(encoder.output))
    optimizer = optimizer_of(settings, Models(model, model, encoder), 8)
    model.compile(optimizer, "mse", run_eagerly=True)
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


# ---------------------------------------------------- on several devices


WORKER = ROOT / "tests" / "toolbox_worker.py"
DEVICES = {
    "two_replicas": ["--strategy=mirrored", "--devices.logical_devices=2", "--accumulation=2"],
    "two_workers": ["--strategy=multi_worker"],
}
VARIANTS = ("adamw", "lamb", "adafactor", "lion", "muon")


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    """The weights of each variant by the devices that trained it."""
    folder = tmp_path_factory.mktemp("toolbox")
    run(WORKER, folder / "one.npz", "--strategy=single", cwd=folder)
    for name, flags in DEVICES.items():
        workers = 2 if name == "two_workers" else 1
        run_workers(workers, WORKER, folder / f"{name}.npz", *flags, cwd=folder)
    records = {}
    for name in ("one", *DEVICES):
        with np.load(folder / f"{name}.npz") as arrays:
            records[name] = dict(arrays)
    return records


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("devices", DEVICES)
def test_weights_are_those_of_one_device(records, devices, variant):
    one, other = records["one"], records[devices]
    assert one["replicas"] == 1 and other["replicas"] == 2
    names = [name for name in one if name.startswith(f"{variant}/")]
    largest = max(np.abs(one[name] - other[name]).max() for name in names)
    print(f"{variant} on {devices}: {largest:.1e}")
    assert largest < 1e-5


@pytest.mark.further
@pytest.mark.trains
def test_averages_are_not_the_weights(records):
    one = records["one"]
    for variant in VARIANTS:
        differences = [
            np.abs(one[name] - one[name.replace("average/", "")]).max()
            for name in one
            if name.startswith(f"{variant}/average/")
        ]
        assert max(differences) > 5e-5  # Lion takes four steps of 1e-4 at the most
