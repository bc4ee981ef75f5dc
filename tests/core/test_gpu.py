"""What GPUs need, on CPUs: the line about an unused card, float16, XLA, few operations."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from projects import bake_project, flags, further, run, shorten

from core.base.errors import command
from core.base.settings import RecordSettings, with_tables
from core.base.xla_flags import add_flags
from core.devices import gpu
from core.devices.gpu import describe_devices
from core.devices.precision import choose_programs
from core.exact.dropout import Dropout, Masks
from core.exact.loss_scale import FIRST_SCALE, GROWTH_STEPS
from core.fast.adamw import AdamW
from core.fast.layer_programs import LayerPrograms, compiled_alone, compiled_layers, kind_of
from core.fast.transformer import TransformerLayer, hide

LAYERS_OF_MINILM = 6


# ---------------------------------------------------------------- is the card used?


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A machine with NVIDIA's driver, whose card TensorFlow does not list."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver = tmp_path / "version"
    driver.touch()
    monkeypatch.setattr(gpu, "DRIVER_FILES", (driver,))
    return driver


def settings_for(**devices):
    return with_tables(RecordSettings)(devices=devices)


def test_a_card_that_is_not_used_is_named_with_the_command_that_mends_it(card, capsys):
    gpu.use_gpus(settings_for())
    line = capsys.readouterr().out
    assert line.startswith("warning: this machine has an NVIDIA GPU, but TensorFlow")
    assert f"pip install 'tensorflow[and-cuda]=={tf.__version__}'" in line


def test_nothing_is_said_without_a_card_or_with_a_hidden_one(card, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    gpu.use_gpus(settings_for())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    card.unlink()
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)
    gpu.use_gpus(settings_for())
    assert capsys.readouterr().out == ""


def test_tensorflow_built_for_cpus_is_told_apart(card, monkeypatch):
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: False)
    assert "is built for CPUs: install the package tensorflow" in gpu.find_unused_gpu()


def test_memory_of_a_card_grows_unless_it_is_split(monkeypatch):
    grown = []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["card"])
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda card, on: grown.append((card, on))
    )
    gpu.use_gpus(settings_for(logical_devices=2))
    assert grown == []
    gpu.use_gpus(settings_for())
    assert grown == [("card", True)]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), "set accumulation = 2"),
        (
            tf.errors.InvalidArgumentError(None, None, "op Where is not compilable by XLA. Why"),
            "set devices.xla = false",
        ),
    ],
)
def test_full_memory_and_what_xla_refuses_end_in_a_sentence(error, sentence):
    @command
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value).startswith("error: ") and sentence in str(ended.value)


def test_flags_of_the_user_win(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=4")
    add_flags("XLA_FLAGS", ("--xla_gpu_autotune_level=0", "--xla_gpu_enable_triton_gemm=false"))
    found = gpu.os.environ["XLA_FLAGS"]
    assert found == "--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=false"


@pytest.mark.parametrize(
    ("capability", "steps", "chosen"),
    [
        ((9, 0), 3000, True),
        ((9, 0), 2999, "optimizer"),
        ((7, 0), 9000, True),
        ((6, 1), 9000, False),
        ((12, 0), 9000, False),
        (None, 9000, False),
    ],
)
def test_xla_compiles_what_pays(capability, steps, chosen, monkeypatch):
    cards = [{"compute_capability": capability, "device_name": "A100"}] if capability else []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: cards)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda card: card)
    settings = settings_for(precision="float32")
    choose_programs(settings, steps, lengths=5)
    assert settings.devices.xla == chosen
    name = "A100, float32, multiplied as TF32" if cards else "CPU, float32"
    for asked, compiled in (
        (True, "layers and optimizer"),
        ("optimizer", "the optimizer"),
        (False, "nothing"),
    ):
        settings = settings_for(precision="float32", xla=asked)
        choose_programs(settings, 1, lengths=5)
        assert settings.devices.xla == asked
        assert describe_devices(settings, 2) == f"device: 2 x {name}, XLA compiles {compiled}"


# ---------------------------------------------------------------- float16


@pytest.fixture
def half():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(policy)


@pytest.mark.parametrize("xla", [False, True])
def test_a_step_that_is_not_finite_changes_no_weight_and_halves_the_scale(half, xla):
    one, other = (keras.Variable([1.0, -2.0], name="kernel", dtype="float32") for _ in range(2))
    gradient = tf.constant([0.5, 0.25])
    skipping, plain = (AdamW(0.1, clip_norm=0.1, xla=xla) for _ in range(2))
    for optimizer, weight in ((skipping, one), (plain, other)):
        optimizer.build([weight])
    skipping.apply([tf.constant([0.5, np.inf])], [one])
    skipping.apply([tf.constant([np.nan, 0.0])], [one])
    assert one.numpy().tolist() == [1.0, -2.0]
    assert float(skipping.loss_scale.scale) == FIRST_SCALE / 4
    assert (int(skipping.iterations), float(skipping.loss_scale.skipped)) == (2, 2.0)
    # The next step is a first step: moments and their corrections are untouched.
    for optimizer, weight in ((skipping, one), (plain, other)):
        optimizer.apply([gradient], [weight])
    np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert one.numpy()[0] < 1.0


def test_the_scale_grows_again(half):
    weight = keras.Variable([1.0], name="kernel", dtype="float32")
    optimizer = AdamW(0.1)
    optimizer.build([weight])
    optimizer.loss_scale.finite.assign(GROWTH_STEPS - 1)
    optimizer.apply([tf.constant([0.5])], [weight])
    assert float(optimizer.loss_scale.scale) == 2 * FIRST_SCALE
    assert float(optimizer.loss_scale.finite) == 0
    names = {variable.name for variable in optimizer.variables}
    assert {"loss_scale", "finite_steps", "skipped_steps"} <= names  # so checkpoints have them


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_hidden_scores_have_no_weight_and_visible_ones_stay(dtype):
    scores = tf.constant([[1.0, 2.0, 300.0]], dtype)
    weights = tf.nn.softmax(hide(scores, tf.constant([[1, 1, 0]])))
    alone = tf.nn.softmax(scores[:, :2])
    np.testing.assert_array_equal(weights[:, :2].numpy(), alone.numpy())
    assert float(weights[0, 2]) == 0.0


# ---------------------------------------------------------------- XLA


def train(project: Path, **changes) -> tuple[float, float]:
    """Return the loss of a few steps and the score of dev."""
    asked = {"epochs": 2, "steps": 6, "buckets": 2, "batch_size": 8, "learning_rate": 1e-3}
    asked |= {"devices.precision": "float32", "run_name": "xla", "overwrite": True}
    run("train.py", *flags(project, **(asked | changes)), cwd=project)
    rows = (project / "runs/xla/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [row["loss"] for row in map(json.loads, rows) if "loss" in row]
    return losses[-1]


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(
    "template",
    further(
        ["relation_extraction", "text_classification", "seq2seq"], "text_classification", "seq2seq"
    ),
)
def test_xla_gives_the_same_losses_with_dropout_on_one_device_and_on_two(
    template, tmp_path, monkeypatch
):
    if template == "text_classification":
        monkeypatch.delenv("XLA_FLAGS")  # one task has the code that users have
    project = bake_project(template, tmp_path, "none")
    shorten(project, {"train": 24, "dev": 8, "test": 8})
    # Two lengths, each of which is compiled, in the task whose layers are compiled fastest.
    lengths = {"buckets": 2 if template == "text_classification" else 1}
    plain = train(project, **lengths)
    xla = {"devices.xla": True, **lengths}
    two = {"strategy": "mirrored", "devices.logical_devices": 2}
    assert train(project, **xla) == pytest.approx(plain, rel=1e-5)
    assert train(project, **xla, **two) == pytest.approx(plain, rel=1e-5)
    if template != "relation_extraction":
        return
    update = {"devices.xla": "optimizer"}
    assert train(project, **update, **two, **lengths) == pytest.approx(plain, rel=1e-5)
    # float16 rounds to three digits, and its first steps may be skipped until the scale fits; one
    # device and two agree, also with XLA.
    narrow = {"devices.precision": "mixed_float16"}
    half = train(project, **narrow)
    assert half == pytest.approx(plain, rel=0.2)
    assert train(project, **narrow, **two) == pytest.approx(half, rel=2e-3)
    assert train(project, **narrow, **{"devices.xla": True}) == pytest.approx(half, rel=2e-3)


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(
    ("own", "precision"),
    [
        pytest.param({"regularization.adversary": "fgm"}, "float32", marks=pytest.mark.further),
        ({"lora.rank": 4}, "mixed_float16"),
    ],
)
def test_xla_gives_the_same_losses_with_extras(own, precision, tmp_path):
    """An adversary or LoRA; R-Drop, averaged weights, recomputed layers and micro-batches."""
    project = bake_project("text_classification", tmp_path)
    shorten(project, {"train": 24, "dev": 8, "test": 8})
    asked = {
        "devices.precision": precision,
        **own,
        "regularization.r_drop": 4,
        "averaging.ema": 0.9,
        "recompute.enabled": True,
        "accumulation": 2,
        "floor": False,
        "buckets": 1,  # the test above compiles for two lengths
    }
    plain = train(project, **asked, **{"devices.xla": False})
    near = 1e-5 if precision == "float32" else 2e-3
    assert train(project, **asked, **{"devices.xla": True}) == pytest.approx(plain, rel=near)
    two = {"strategy": "mirrored", "devices.logical_devices": 2, "devices.xla": True}
    assert train(project, **asked, **two) == pytest.approx(plain, rel=near)


@pytest.mark.further
@pytest.mark.trains
def test_a_loop_over_tokens_is_not_compiled(tmp_path):
    """XLA can't hand what its gradient needs from one program to another: the CRF's loss."""
    project = bake_project("named_entity_recognition", tmp_path, "none")
    shorten(project, {"train": 24, "dev": 8, "test": 8})
    asked = {"tagger": "crf", "buckets": 1}
    plain, xla = (train(project, **asked, **{"devices.xla": wanted}) for wanted in (False, True))
    assert xla == pytest.approx(plain, rel=1e-5)


def test_layers_that_are_alike_share_a_program_and_others_do_not():
    layers = [TransformerLayer(8, 2, dropout=0.1, name=f"layer_{n}") for n in range(3)]
    for layer in layers:
        layer.build((None, None, 4))
    first, second, third = layers
    assert kind_of(first) == kind_of(second)
    third._self_attention_layer._dropout_layer.rate = 0.5  # set on a built layer
    assert kind_of(first) != kind_of(third)
    programs = LayerPrograms()
    model = SimpleNamespace(programs=programs)
    hidden = np.ones((2, 3, 4), "float32")
    with compiled_layers(model):
        outputs = [layer(hidden) for layer in layers]
    assert len(programs.functions) == 2
    for layer, output in zip(layers, outputs, strict=True):
        np.testing.assert_allclose(output, layer(hidden), atol=1e-6)


class Counting(keras.layers.Layer):
    """A layer that changes a weight while it is called."""

    def build(self, shape) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    @compiled_alone
    def call(self, inputs):
        self.calls.assign_add(1.0)
        return inputs + self.calls


class Noisy(keras.layers.Layer):
    """A layer that draws numbers of its own."""

    def build(self, shape) -> None:
        self.seeds = keras.random.SeedGenerator(1)

    @compiled_alone
    def call(self, inputs, training=None):
        return inputs + keras.random.normal(tf.shape(inputs), seed=self.seeds)


class Outer(Counting):
    """A layer that assigns a weight, and has dropout."""

    def build(self, shape) -> None:
        super().build(shape)
        self.dropout = Dropout(0.5)
        self.dropout.stream = "1/0"  # as `place_dropout` sets it

    @compiled_alone
    def call(self, inputs, training=None):
        self.calls.assign_add(1.0)
        return self.dropout(inputs, training=training)


def test_dropout_of_a_layer_that_is_not_compiled_draws_what_it_draws_without_xla():
    layer, inputs = Outer(), tf.ones((4, 16))
    found = []
    for programs in (None, LayerPrograms()):
        model = SimpleNamespace(programs=programs)
        with compiled_layers(model), Masks(tf.constant(0), tf.range(4)).drawn():
            found.append(layer(inputs, training=True).numpy())
    np.testing.assert_array_equal(*found)


def test_layers_with_a_state_are_not_compiled():
    model = SimpleNamespace(programs=LayerPrograms())
    counting, noisy = Counting(), Noisy()
    with compiled_layers(model):
        values = [float(counting(tf.zeros(1))[0]) for _ in range(3)]
        drawn = [float(noisy(tf.zeros(1), training=True)[0]) for _ in range(3)]
    assert values == [1.0, 2.0, 3.0]
    assert len({*drawn}) == 3


# ---------------------------------------------------------------- few operations


LAUNCHES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from launches import count_launches
from project_parts import open_training
print("FOUND", count_launches(open_training(Path(sys.argv[2]), sys.argv[3:])).total())
"""


def count_launches(project: Path, **changes) -> int:
    """Return the operations of a step that a GPU would start, by the benchmark."""
    script = project.parent / "count.py"
    script.write_text(LAUNCHES, encoding="utf-8")
    done = run(script, ROOT / "benchmarks", project, *flags(project, **changes), cwd=ROOT)
    [found] = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    return int(found.split()[1])


@pytest.mark.shown(
    "text_classification-6-mixed_bfloat16-True", "relation_extraction-2-float32-True"
)
@pytest.mark.trains
@pytest.mark.parametrize(
    ("template", "layers", "precision", "xla", "most"),
    [
        ("relation_extraction", 2, "float32", True, 110),
        ("relation_extraction", 2, "float32", "optimizer", 600),
        ("relation_extraction", 2, "float32", False, 805),
        ("text_classification", LAYERS_OF_MINILM, "mixed_bfloat16", True, 125),
        ("text_classification", LAYERS_OF_MINILM, "float32", "optimizer", 845),
        ("text_classification", LAYERS_OF_MINILM, "mixed_bfloat16", "optimizer", 1000),
        ("reading_comprehension", 2, "float32", True, 110),
        ("reading_comprehension", 2, "float32", "optimizer", 485),
        ("seq2seq", 2, "float32", "optimizer", 445),
    ],
)
def test_a_step_starts_few_operations(template, layers, precision, xla, most, tmp_path):
    project = bake_project(template, tmp_path, "none")
    asked = {"devices.precision": precision, "devices.xla": xla, "tiny_layers": layers}
    if template == "text_classification":
        asked["floor"] = False
    assert count_launches(project, **asked, strategy="single") <= most


@pytest.mark.shown("Ann")
@pytest.mark.parametrize("name", ["my project", 'Ann\'s "first" project'])
def test_the_cache_of_programs_may_have_blanks_and_quotes_in_its_path(tmp_path, name):
    """TensorFlow cuts its flags at blanks, unless a value is quoted."""
    folder = tmp_path / name
    (folder / "core/base").mkdir(parents=True)
    shutil.copy(ROOT / "templates/core/base/xla_flags.py", folder / "core/base")
    script = folder / "compile.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from core.base.xla_flags import set_xla_flags\nset_xla_flags()\n"
        "import tensorflow as tf\n"
        "print(tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros(3)))\n"
    )
    run(script, folder, cwd=folder, anew=True)
    assert [*(folder / "runs/.xla").rglob("*")] and [*tmp_path.iterdir()] == [folder]
