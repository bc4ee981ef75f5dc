"""`devices.precision = "auto"`: what is chosen, said, kept; and bfloat16 against float32."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from projects import bake_project, flags, run, shorten

from core.base.settings import RecordSettings, with_tables
from core.devices import precision
from core.devices.gpu import describe_devices
from core.devices.precision import find_precision, set_seed_and_precision
from core.encoders.encoder import BertEncoder, encoder_inputs, hidden_states
from core.fast.transformer import exact_gelu_function, tanh_gelu_function
from core.step import TrainingModel
from extras.encoders.modernbert import gated_by, turned_by
from extras.encoders.postnorm import by_distance, by_distance_back, rotate_neighbours

WITH_AMX = "processor\t: 0\nflags\t\t: fpu avx512_bf16 amx_bf16 amx_tile\n"
WITHOUT = "processor\t: 1\nflags\t\t: fpu avx512_bf16 amx_bf16_not\n"
ISAS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """No variable of this machine, and the policy as it was."""
    for name in ISAS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)


def settings_for(precision: str = "auto", **changes) -> RecordSettings:
    return with_tables(RecordSettings)(devices={"precision": precision}, **changes)


def use_processor(monkeypatch, folder, text: str | None) -> None:
    """Let a machine have a processor; None: it doesn't say."""
    path = folder / "cpuinfo"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(precision, "CPU_INFO", path)


@pytest.mark.parametrize(
    ("text", "variables", "expected", "reason"),
    [
        (WITH_AMX, {}, "mixed_bfloat16", "with AMX"),
        (WITHOUT, {}, "float32", "has no AMX"),
        (WITH_AMX + WITHOUT, {}, "float32", "has no AMX"),
        ("Features\t: fp asimd bf16\n", {}, "float32", "has no AMX"),
        ("", {}, "float32", "has no AMX"),
        (None, {}, "float32", "has no AMX"),
        (WITH_AMX, {"TF_ENABLE_ONEDNN_OPTS": "0"}, "float32", "TF_ENABLE_ONEDNN_OPTS keeps"),
        (WITH_AMX, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, "float32", "ONEDNN_MAX_CPU_ISA"),
        (WITH_AMX, {"DNNL_MAX_CPU_ISA": "AVX2"}, "float32", "DNNL_MAX_CPU_ISA keeps"),
        (WITH_AMX, {"ONEDNN_MAX_CPU_ISA": "avx512_core_amx"}, "mixed_bfloat16", "with AMX"),
        (WITH_AMX, {"ONEDNN_MAX_CPU_ISA": "ALL"}, "mixed_bfloat16", "with AMX"),
    ],
)
def test_a_processor(text, variables, expected, reason, monkeypatch, tmp_path, capsys):
    use_processor(monkeypatch, tmp_path, text)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = settings_for()
    settings.devices.xla = False
    set_seed_and_precision(settings)
    assert settings.devices.precision == keras.config.dtype_policy().name == expected
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"precision: {expected}, because ") and reason in line
    assert describe_devices(settings, 1).startswith(f"device: CPU, {expected}, XLA ")
    assert find_precision(settings) == expected
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ([{"compute_capability": (8, 0)}], "mixed_bfloat16"),
        ([{"compute_capability": (9, 0)}, {"compute_capability": (7, 5)}], "mixed_float16"),
        ([{"compute_capability": (7, 0)}, {"compute_capability": (6, 0)}], "float32"),
        ([{}], "float32"),
    ],
)
def test_graphics_cards(cards, expected, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: cards)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda card: card)
    assert find_precision(settings_for()) == expected


def test_a_tpu_and_what_is_set_by_hand(monkeypatch, tmp_path, capsys):
    use_processor(monkeypatch, tmp_path, WITHOUT)
    assert find_precision(settings_for(strategy="tpu", buckets=1)) == "mixed_bfloat16"
    capsys.readouterr()
    for name in ("float32", "mixed_bfloat16"):
        assert find_precision(settings_for(name)) == name
    assert capsys.readouterr().out == ""


@pytest.mark.further
@pytest.mark.trains
def test_a_run_keeps_the_precision_that_it_began_with(tmp_path):
    """And says it; a machine without AMX goes on with bfloat16, and predicts with it."""
    project = bake_project("text_classification", tmp_path)
    shorten(project, {"train": 24, "dev": 8})
    path = project / "core/devices/precision.py"
    code = path.read_text(encoding="utf-8")
    asked = {"run_name": "kept", "epochs": 1, "devices.precision": "auto", "batch_size": 4}

    def train(machine: str, **changes) -> str:
        info = tmp_path / "cpuinfo"
        info.write_text(machine, encoding="utf-8")
        path.write_text(code.replace("/proc/cpuinfo", info.as_posix()), encoding="utf-8")
        words = flags(project, **asked, **changes)
        return run(project / "train.py", *words, cwd=project).stdout

    assert "precision: mixed_bfloat16, because the CPU" in train(WITH_AMX)
    folder = project / "runs/kept"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert scores["dtype_policy"] == config["devices"]["precision"] == "mixed_bfloat16"
    # As it would be before its end.
    del scores["finished"]
    (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    said = train(WITHOUT)
    assert "precision: " not in said and "devices.precision = mixed_bfloat16" in said
    evaluated = run(
        project / "evaluate.py", "kept", project / "sample/dev.jsonl", cwd=project
    ).stdout
    assert evaluated
    files = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    [own] = files["files"].values()
    assert own["dtype_policy"] == "mixed_bfloat16"
    assert "precision: float32, because " in train(WITHOUT, overwrite=True)


# ------------------------------------------------------------------ one pass over memory


@pytest.mark.parametrize("gelu", [exact_gelu_function, tanh_gelu_function])
def test_an_activation_in_one_pass_is_float32_rounded(gelu):
    """Within a unit of the last place of bfloat16."""
    values = np.random.default_rng(1).normal(size=(7, 33)).astype("float32") * 3
    values, upstream = (tf.cast(part, tf.bfloat16) for part in (values, np.cos(values)))

    def compute(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = gelu(inputs)
        return outputs, tape.gradient(outputs, inputs, upstream)

    exact = compute(tf.cast(values, "float32"), tf.cast(upstream, "float32"))
    for found in (compute(values, upstream), tf.function(compute)(values, upstream)):
        for one, other in zip(found, exact, strict=True):
            assert one.dtype == tf.bfloat16
            one = tf.cast(one, "float32").numpy()
            np.testing.assert_allclose(one, other, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize(
    "function, shape",
    [
        (rotate_neighbours, (2, 3, 9, 8)),
        (turned_by(160000.0), (2, 3, 9, 8)),
        (by_distance, (2, 3, 9, 17)),
        (by_distance_back, (2, 3, 9, 17)),
        (gated_by(exact_gelu_function), (2, 9, 8)),
        (gated_by(keras.activations.silu), (2, 9, 8)),
    ],
)
def test_one_pass_computes_what_the_operations_do(function, shape):
    """And its gradient, eagerly and as a part of a graph."""
    random = np.random.default_rng(3)
    inputs = tf.constant(random.normal(size=shape), "float32")
    outputs = function.__wrapped__(inputs)
    upstream = tf.constant(random.normal(size=outputs.shape), "float32")

    def compute(function, inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
        return outputs, tape.gradient(outputs, inputs, upstream)

    wanted = compute(function.__wrapped__, inputs, upstream)
    for way in (compute, tf.function(compute, autograph=False)):
        for found, exact in zip(way(function, inputs, upstream), wanted, strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_gelu_by_tanh_is_that_of_keras():
    inputs = tf.constant(np.random.default_rng(4).normal(size=(7, 33)) * 3, "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        found, wanted = tanh_gelu_function(inputs), keras.activations.gelu(inputs, approximate=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    gradients = (tape.gradient(outputs, inputs) for outputs in (found, wanted))
    np.testing.assert_allclose(*gradients, rtol=1e-5, atol=1e-5)


def gradient_of(precision: str, accumulation: int = 1) -> np.ndarray:
    """Return the gradient of a small BERT with the same weights and batch, as one vector."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(precision)
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 64, "intermediate_dim": 128}
    encoder = BertEncoder(vocabulary_size=50, max_sequence_length=20, dropout=0.0, **sizes)
    inputs, random = encoder_inputs(encoder), np.random.default_rng(2)
    weights = random.normal(size=(1, 20, 64)).astype("float32")

    def sum_up(hidden):
        return tf.reduce_sum(tf.cast(hidden, "float32") * weights, axis=(1, 2))

    loss = keras.layers.Lambda(sum_up, output_shape=(), dtype="float32", name="loss")
    model = TrainingModel(inputs, {"loss": loss(hidden_states(encoder, inputs))})
    for variable in model.trainable_variables:
        assert variable.dtype == "float32"
        variable.assign(random.normal(size=variable.shape) * 0.2 + variable)
    model.compile(keras.optimizers.SGD(), accumulation)
    tokens = random.integers(0, 50, (8, 20)).astype("int32")
    arrays = {"token_ids": tokens, "padding_mask": 1 + 0 * tokens, "segment_ids": 0 * tokens}
    batch = {name: tf.constant(arrays[name]) for name in inputs}
    gradients, _ = model.batch_gradients({**batch, "loss_weight": tf.fill((8,), 0.125)})
    assert all(gradient.dtype == tf.float32 for gradient in gradients)
    return np.concatenate([gradient.numpy().ravel() for gradient in gradients])


def test_gradients_of_bfloat16_are_those_of_float32_rounded():
    """Micro-batches, and so replicas, round other sums: they are as near to each other."""
    exact, narrow = gradient_of("float32"), gradient_of("mixed_bfloat16")
    halves = gradient_of("mixed_bfloat16", accumulation=2)
    size = np.linalg.norm(exact)
    found = [
        np.linalg.norm(one - other) / size for one, other in ((narrow, exact), (halves, narrow))
    ]
    print("of the gradient's length:", found)
    assert 1e-4 < found[0] < 0.03 and found[1] < 0.01
