"""Low-rank updates: as a merged matrix, with a frozen base, saved and restored bit for bit."""

import json
import re
import signal
from pathlib import Path

import h5py
import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from projects import TEMPLATES, bake_project, flags, further, run, shorten
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file
from small_models import (
    LABELS,
    CrossEntropy,
    Examples,
    assert_equal,
    bert_encoder,
    compile_models,
    make_settings,
)
from test_encoders import load, write_model
from test_used_rows import best, write_encoder

from core.base.errors import InputError
from core.exact.dropout import named_layers
from core.fast.layer_programs import kind_of
from core.runs.checkpoints import restore_checkpoint, save_checkpoint
from core.runs.run import Run
from core.step import Models, TrainingModel
from extras.averaging.averaging import Soup
from extras.lora import base as base_module
from extras.lora.adapters import (
    ALL,
    PARTS,
    Adapted,
    adapt_layers,
    base_weights,
    choose_layers,
    merge_when_loaded,
    product_of,
)
from extras.lora.base import KEPT
from extras.lora.codes import decode, encode
from extras.lora.settings import Table

RANK, ALPHA = 3, 6.0
WORKER = ROOT / "tests" / "replica_worker.py"


def lora(**changes):
    """Return settings with updates of low rank."""
    table = {"rank": RANK, "alpha": ALPHA, **changes}
    return make_settings(lora=table, encoder="somewhere")


def read(rows: int = 4, length: int = 7) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(5, 20, (rows, length)).astype("int32")
    return {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}


def states(encoder: keras.Model) -> np.ndarray:
    outputs = encoder({tensor.name: read()[tensor.name] for tensor in encoder.inputs})
    return np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)


def draw_updates(encoder: keras.Model, size: float = 0.2) -> None:
    """Let no update be 0."""
    random = np.random.default_rng(1)
    for weight in encoder.trainable_weights:
        if weight.name == "lora_b":
            weight.assign(random.normal(size=weight.shape, scale=size))


def names_in(path: Path) -> list[str]:
    """Return the names of the arrays of a file of weights."""
    names: list[str] = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
    return names


# ------------------------------------------------------------------ one layer


einsum = keras.layers.EinsumDense
LAYERS = {
    "dense": (lambda: keras.layers.Dense(6, activation="tanh"), (8,)),
    "query": (lambda: einsum("abc,cde->abde", (None, 2, 3), bias_axes="de"), (8,)),
    "output": (lambda: einsum("abcd,cde->abe", (None, 6), bias_axes="e"), (2, 4)),
    "gemma": (lambda: einsum("btd,ndh->btnh", (None, 2, 3)), (8,)),
    "bias of one axis": (lambda: einsum("abc,cde->abde", (None, 2, 3), bias_axes="e"), (8,)),
}


@pytest.mark.parametrize("kept", ["float", "int8", "int4"])
@pytest.mark.parametrize("kind", LAYERS)
def test_an_update_is_a_merged_matrix(kind, kept):
    keras.utils.set_random_seed(1)
    make, width = LAYERS[kind]
    layer, merged = make(), make()
    inputs = np.random.default_rng(2).normal(size=(2, 5, *width)).astype("float32")
    for one in (layer, merged):
        one.build(inputs.shape)
    kernel, bias = np.asarray(layer.kernel), layer.get_weights()[1:]
    product = product_of(layer)
    layer.__class__ = type("Made", (Adapted, type(layer)), {})
    layer.adapt(product, RANK, ALPHA, 1, kept)
    layer.lora_b.assign(np.random.default_rng(3).normal(size=layer.lora_b.shape))
    arrays = {}
    if kept != "float":
        matrix = product.as_matrix(kernel).numpy()
        arrays = encode(matrix, kept)
        kernel = product.as_kernel(decode(arrays, len(matrix))).numpy()
    # W + alpha / r * B A, of matrices.
    order = [*product.summed, *product.made]
    update = ALPHA / RANK * (np.asarray(layer.lora_a) @ np.asarray(layer.lora_b))
    update = update.reshape([kernel.shape[axis] for axis in order])
    expected = kernel + np.transpose(update, np.argsort(order))
    np.testing.assert_allclose(layer.kernel, expected, rtol=1e-6, atol=1e-6)
    merged.set_weights([expected, *bias])
    np.testing.assert_allclose(layer(inputs), merged(inputs), rtol=1e-5, atol=1e-5)
    names = {weight.name for weight in layer.weights if weight.name not in ("kernel", "bias")}
    assert names == {"lora_a", "lora_b"} | {f"kernel_{name}" for name in arrays}


def test_int8_has_a_scale_for_each_output():
    matrix = np.random.default_rng(1).normal(size=(100, 5)).astype("float32") * [1, 9, 0, 1, 1]
    arrays = encode(matrix.astype("float32"), "int8")
    codes, scales = arrays["codes"], arrays["scales"]
    assert codes.dtype == np.int8 and np.abs(codes).max() == 127 and scales.shape == (1, 5)
    assert (np.abs(decode(arrays, 100) - matrix) <= 0.5001 * scales).all()
    np.testing.assert_array_equal(decode(arrays, 100), codes * scales)


@pytest.mark.parametrize("inputs", [1, 63, 64, 100, 384])
def test_int4_has_a_scale_and_a_zero_for_64_inputs_of_an_output(inputs):
    """Any group is within half a step of its own range, which holds 0, and 0 stays 0."""
    random = np.random.default_rng(1)
    matrix = random.normal(size=(inputs, 6)).astype("float32")
    matrix[:, 1] *= 1000  # its steps change no other output
    matrix[:, 2] = 0
    matrix[:, 3] = 0.25  # of one sign, and all the same
    matrix[:, 4] = -5 - np.abs(matrix[:, 4])
    matrix[::2, 5] = 0
    arrays = encode(matrix, "int4")
    groups = -(-inputs // 64)
    assert arrays["codes"].dtype == np.int8 and arrays["codes"].shape == (32 * groups, 6)
    assert arrays["scales"].shape == arrays["zeros"].shape == (groups, 6)
    found = np.asarray(decode(arrays, inputs))
    for start in range(0, inputs, 64):
        part = matrix[start : start + 64]
        step = (np.maximum(part.max(0), 0) - np.minimum(part.min(0), 0)) / 15
        # The zero is rounded too, so an end of the range may be half a step beyond the last code.
        assert (np.abs(found[start : start + 64] - part) <= 0.5001 * step + 1e-6).all()
    np.testing.assert_array_equal(found[matrix == 0], 0)


def test_normal_kernels_lose_one_hundredth_in_int8_and_a_tenth_in_int4():
    matrix = np.random.default_rng(1).normal(size=(768, 64)).astype("float32")
    errors = {
        base: float(np.std(decode(encode(matrix, base), 768) - matrix)) for base in ("int8", "int4")
    }
    assert 0.005 < errors["int8"] < 0.012 and 0.08 < errors["int4"] < 0.1, errors
    held = {base: sum(a.nbytes for a in encode(matrix, base).values()) for base in errors}
    assert matrix.nbytes / held["int8"] > 3.9 and matrix.nbytes / held["int4"] > 6.8


def test_a_layer_with_a_kernel_for_each_row_gets_none():
    layer = keras.layers.EinsumDense("eab,ebc->eac", (None, 3))
    layer.build((2, None, 4))
    assert product_of(layer) is None


# ------------------------------------------------------------------ encoders


FAMILIES = {
    "bert": 12,
    "bert_relu": 12,
    "albert": 6,
    "roformer": 12,
    "roformer_v2": 12,
    "nezha": 12,
    "deberta_v3": 12,
    "deberta_v2": 12,
    "mpnet": 12,
    "modernbert": 8,
}


@pytest.mark.shown("[bert]", "deberta_v3", "modernbert")
@pytest.mark.parametrize("kind", FAMILIES)
def test_families_learn_and_are_merged(kind, tmp_path):
    """Of each an adapted encoder computes what one with merged kernels does."""
    folder = write_model(tmp_path / "model", kind)
    encoder, plain = load(folder), load(folder)
    before, settings = states(encoder), lora()
    kept = [np.array(weight) for weight in base_weights(encoder)]
    adapt_layers(settings, encoder)
    np.testing.assert_allclose(states(encoder), before, atol=1e-5)
    draw_updates(encoder)
    after = states(encoder)
    assert np.abs(after - before).max() > 0.1
    encoder.save_weights(tmp_path / "updates.weights.h5")
    kernels = encoder.lora_base.kernels
    assert len(kernels) >= FAMILIES[kind] or kind == "deberta_v2"
    merge_when_loaded(settings, plain, kernels)
    plain.load_weights(tmp_path / "updates.weights.h5")
    np.testing.assert_allclose(states(plain), after, atol=1e-4)
    assert_equal(kept, [weight for weight in encoder.weights if hasattr(weight, "frozen")])
    names = names_in(tmp_path / "updates.weights.h5")
    others = [name for name in names if not re.search(r"lora_[ab]$", name)]
    assert len(names) - len(others) == 2 * len(kernels)
    assert all("dense/vars/" in name for name in others) and len(others) <= 2  # the pooler


def test_parts_by_name():
    assert tuple(PARTS) == Table.parts
    encoder = bert_encoder()
    paths = {
        layers: [path.rpartition("/")[2] for path, _, _ in choose_layers(encoder, layers)]
        for layers in ("query,value", "output", "feedforward", "key, feedforward", ALL)
    }
    assert paths["query,value"] == ["query", "value"] * 2
    assert paths["output"] == ["attention_output"] * 2
    dense = ["feedforward_intermediate_dense", "feedforward_output_dense"]
    assert paths["feedforward"] == dense * 2
    assert paths["key, feedforward"] == ["key", *dense] * 2
    assert len(paths[ALL]) == 12
    with pytest.raises(ValidationError, match="write all, or some of query, key, value, output"):
        lora(layers="query,kernel")


def test_layers_with_updates_are_alike_and_share_programs():
    encoder = bert_encoder()
    adapt_layers(lora(), encoder)
    first, second = encoder.transformer_layers
    assert kind_of(first) == kind_of(second)


def test_a_decoder_with_cross_attention():
    keras.utils.set_random_seed(1)
    target, source = (keras.Input((None, 8), name=name) for name in ("target", "source"))
    layer = keras_hub.layers.TransformerDecoder(16, 2, name="decoder")
    model = keras.Model({"target": target, "source": source}, layer(target, source))
    arrays = {"target": np.ones((2, 3, 8), "float32"), "source": np.ones((2, 4, 8), "float32")}
    before = np.asarray(model(arrays))
    adapt_layers(lora(), model)
    assert len(model.lora_base.kernels) == 10
    np.testing.assert_allclose(model(arrays), before, atol=1e-6)
    draw_updates(model)
    assert np.abs(np.asarray(model(arrays)) - before).max() > 0.01


def test_an_encoder_without_such_layers_and_a_rank_too_high():
    for encoder, changes, mend in (
        (with_table(), {}, 'set lora.layers = "all", or set lora.rank = 0'),
        (bert_encoder(), {"rank": 9}, "has a kernel of rank 8: set lora.rank lower"),
    ):
        with pytest.raises(InputError, match=re.escape(mend)):
            adapt_layers(lora(**changes), encoder)


def with_table() -> keras.Model:
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    return keras.Model(token_ids, keras.layers.Embedding(20, 6)(token_ids))


@pytest.mark.parametrize(
    ("tables", "mend"),
    [
        ({"used_rows": {"enabled": True}}, "used_rows.enabled = false"),
        ({"regularization": {"adversary": "fgm"}}, "adversary = none"),
        ({"regularization": {"gradient_penalty": 0.1}}, "both to 0"),
        ({"regularization": {"virtual_adversary": 1.0}}, "both to 0"),
        ({"strategy": "parameter_server"}, "another strategy"),
    ],
)
def test_what_trains_or_shifts_embeddings_is_refused(tables, mend):
    make_settings(**tables)
    with pytest.raises(ValidationError, match=f"set lora.rank = 0, or {mend}"):
        make_settings(lora={"rank": RANK}, **tables)


# ------------------------------------------------------------------ a training


class Texts(Examples):
    """Random tokens, with what else a BERT reads."""

    def make_batch(self, examples, length):
        batch = super().make_batch(examples, length)
        ids = batch["token_ids"]
        return {**batch, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}


def build(settings) -> Models:
    """Return models, compiled."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    encoder = bert_encoder(num_layers=1, dropout=0.2)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    logits = keras.layers.Dense(LABELS, name="logits")(encoder(inputs)["sequence_output"][:, 0])
    labels = keras.Input((), dtype="int32", name="labels")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({**inputs, "labels": labels}, {"label_loss": loss})
    models = Models(training, keras.Model(inputs, {"logits": logits}), encoder)
    compile_models(settings, models, 20)
    return models


@pytest.mark.trains
def test_the_base_stays_and_the_rest_is_saved_and_restored_bit_for_bit(tmp_path):
    """With recomputed layers and averages; only what is trained has moments, and is written."""
    settings = make_settings(
        lora={"rank": RANK},
        encoder="somewhere",
        learning_rate=1e-2,
        weight_decay=0.1,
        recompute={"enabled": True},
        averaging={"ema": 0.5},
    )
    models = build(settings)
    model, frozen = models.training, [w for w in models.training.weights if hasattr(w, "frozen")]
    before = [np.array(weight) for weight in frozen]
    first = [np.array(weight) for weight in model.trainable_weights]
    batches = iter(Texts().to_dataset())
    step = tf.function(model.train_step)
    for _ in range(3):
        step(next(batches))
    assert_equal(before, frozen)
    names = [weight.name for weight in model.trainable_weights]
    assert names.count("lora_a") == names.count("lora_b") == 6
    moved = [
        np.abs(np.asarray(weight) - start).max() > 0
        for weight, start in zip(model.trainable_weights, first, strict=True)
    ]
    assert all(moved[n] for n, name in enumerate(names) if name.startswith("lora_"))
    moments = [tuple(v.shape) for v in model.optimizer.variables if len(v.shape)]
    assert sorted(moments) == sorted(3 * [tuple(w.shape) for w in model.trainable_weights])
    # A checkpoint holds none of the base.
    run_folder = Run(tmp_path / "run")
    save_checkpoint(run_folder.folder, run_folder.position, model)
    with np.load(run_folder.folder / "checkpoint.npz") as arrays:
        held = sum(arrays[name].size for name in arrays if name.isdigit())
    trained = sum(np.prod(weight.shape) for weight in model.trainable_weights)
    assert 4 * trained <= held < 4 * trained + 20
    model.save_weights(tmp_path / "best.weights.h5")
    soup = Soup(tmp_path / "soup", 2)
    for number in (1, 2):
        soup.add(models.inference, number, 1.0)
    expected = [np.array(weight) for weight in model.weights]
    again = build(settings)
    restore_checkpoint(run_folder.folder, run_folder.position, again.training)
    assert_equal(expected, again.training.weights)
    again = build(settings)
    again.training.load_weights(tmp_path / "best.weights.h5")
    assert_equal(expected, again.training.weights)
    again = build(settings)
    assert soup.average(again.inference) == [1, 2]
    assert_equal(before, [w for w in again.training.weights if hasattr(w, "frozen")])


@pytest.mark.shown("int8")
@pytest.mark.parametrize(("base", "numbers"), [("int8", 1), ("int4", 2)])
def test_the_gradient_beside_codes_is_that_of_finite_differences(base, numbers):
    models = build(lora(base=base))
    encoder, inputs = models.encoder, {k: tf.constant(v) for k, v in read().items()}
    draw_updates(encoder)
    random = np.random.default_rng(4)
    cotangent = tf.constant(random.normal(size=(4, 7, 8)), tf.float32)
    weights = [w for w in encoder.trainable_weights if w.name.startswith("lora_")]

    @tf.function
    def loss():
        return tf.reduce_sum(encoder(inputs)["sequence_output"] * cotangent)

    @tf.function
    def slopes():
        with tf.GradientTape() as tape:
            product = loss.python_function()
        return tape.gradient(product, [weight.value for weight in weights])

    # Floats of all kernels, kept from the forward pass on, would fill more than codes save.
    operations = slopes.get_concrete_function().graph.get_operations()
    casts = [op for op in operations if op.type == "Cast" and op.inputs[0].dtype == tf.int8]
    assert len(casts) == 2 * 6 * numbers  # of codes, and of zeros
    gradients = [np.asarray(gradient) for gradient in slopes()]
    for weight, gradient in zip(weights, gradients, strict=True):
        start, size = np.array(weight), 1e-2
        # Along the gradient, where a difference is largest beside what rounding makes of it.
        way = gradient / np.linalg.norm(gradient)
        ends = []
        for sign in (1, -1):
            weight.assign(start + sign * size * way)
            ends.append(float(loss()))
        weight.assign(start)
        assert (ends[0] - ends[1]) / (2 * size) == pytest.approx(
            np.linalg.norm(gradient), rel=5e-3, abs=1e-3
        ), weight.path


@pytest.mark.parametrize("layers", ["query", "query,value"])
def test_only_some_parts_are_trained(layers):
    models = build(lora(layers=layers))
    names = [w.path for w in models.encoder.trainable_weights if w.name.startswith("lora_")]
    assert len(names) == 2 * len(layers.split(","))
    adapted = [layer for _, layer in named_layers(models.encoder) if isinstance(layer, Adapted)]
    assert len(adapted) == len(layers.split(","))


# ------------------------------------------------------------------ in a project


RECORDS, BATCH = 47, 4  # 12 steps; the last batch has three examples
SETTINGS = {
    "encoder": "encoder",
    "epochs": 1,
    "batch_size": BATCH,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "buckets": 1,
    "checkpoint_steps": 4,
    "lora.rank": RANK,
    "lora.base": "int8",
}
REPLICAS = {
    "strategy": "mirrored",
    "devices.logical_devices": 2,
    "accumulation": 2,
    "recompute.enabled": True,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    project = bake_project("text_classification", tmp_path_factory.mktemp("p"), "lora, recompute")
    write_encoder(project / "encoder", project / "sample")
    shorten(project, {"train": RECORDS, "dev": 8, "test": 8})
    asked = flags(project, run_name="whole", **SETTINGS)
    said = run("train.py", *asked, cwd=project).stdout
    line = r"updates of rank 3 for 6 kernels, .* MB stay as they are, .* as float32"
    assert re.search(line, said) and "are random" not in said
    return project


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_last_bit(project, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 7}), encoding="utf-8")
    asked = flags(project, run_name="killed", **SETTINGS)
    result = run(WORKER, project, plan, *asked, cwd=tmp_path, check=False)
    assert result.returncode == -signal.SIGKILL, f"{result.stdout}\n{result.stderr}"
    run("train.py", *asked, cwd=project)
    expected, found = best(project, "whole"), best(project, "killed")
    assert_equal(expected.values(), found.values())


@pytest.mark.further
@pytest.mark.trains
def test_two_replicas_micro_batches_and_recomputed_layers(project):
    asked = flags(project, run_name="replicas", **{**SETTINGS, **REPLICAS})
    run("train.py", *asked, cwd=project)
    expected, found = best(project, "whole"), best(project, "replicas")
    assert expected.keys() == found.keys() and any("lora_b" in name for name in found)
    largest = max(np.abs(expected[name] - found[name]).max() for name in found)
    print(f"largest difference {largest:.1e}")
    assert largest < 1e-5


@pytest.mark.trains
def test_a_run_predicts_what_it_scored_and_names_another_encoder(project):
    """Merged kernels give what was scored on dev; those of another encoder are refused."""
    run("evaluate.py", "whole", "sample/dev.jsonl", cwd=project)
    scored, merged = (
        [[*json.loads(line)["probabilities"].values()] for line in file.open(encoding="utf-8")]
        for file in sorted((project / "runs/whole/predictions").glob("*.jsonl"))
    )
    # A base without its updates, or with them twice, is much further away.
    np.testing.assert_allclose(merged, scored, atol=2e-4)
    assert np.ptp(np.array(scored)[:, 0]) > 0.01
    weights = project / "encoder" / "model.safetensors"
    kept = weights.read_bytes()
    save_file({name: 2 * array for name, array in load_file(weights).items()}, weights)
    try:
        done = run("evaluate.py", "whole", "sample/dev.jsonl", cwd=project, check=False)
    finally:
        weights.write_bytes(kept)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "encoder = 'encoder' is not the one that whole was begun with" in done.stderr


def test_a_base_that_changed_is_refused_when_a_run_goes_on(tmp_path):
    run_folder = Run(tmp_path)
    models = build(lora())
    base_module.check_base(lora(), run_folder, models.encoder)
    base_module.check_base(lora(), run_folder, build(lora()).encoder)
    keras.utils.set_random_seed(7)
    other = bert_encoder(num_layers=1)
    adapt_layers(lora(), other)
    with pytest.raises(InputError, match="restore its files, or train again with --overwrite true"):
        base_module.check_base(lora(), run_folder, other)


# ------------------------------------------------------------------ in every project

TWO_STEPS = {
    "batch_size": BATCH,
    "buckets": 1,
    "steps": 2,
    "checkpoint_steps": 1,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "lora.rank": 4,
}


def tables(arrays) -> set[bytes]:
    """Return the bytes of the arrays with more than one axis: no two of a model are alike."""
    return {np.asarray(array).tobytes() for array in arrays if np.ndim(array) > 1}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("template", further(TEMPLATES, "reading_comprehension", "seq2seq"))
def test_every_project_goes_on_after_a_step_as_if_nothing_had_happened(template, tmp_path):
    """Its base, which comes from nowhere, is kept once, and is at the end what it was.

    The one run trains two steps; the other goes on from what a kill after the first would leave.
    """
    project = bake_project(template, tmp_path, "lora")
    shorten(project, {"train": 2 * BATCH, "dev": 4})
    plan, left = tmp_path / "plan.json", []
    for name, copy in (("whole", "stopped"), ("stopped", "again")):
        folder, record = project / "runs" / name, tmp_path / f"{name}.npz"
        asked = {"record": str(record), "copy_at": 1, "copy": str(folder.with_name(copy))}
        plan.write_text(json.dumps(asked), encoding="utf-8")
        if name == "stopped":
            with np.load(folder / "checkpoint.npz") as saved, np.load(folder / KEPT) as base:
                assert saved["position/updates"] == 1
                assert not tables(saved.values()) & tables(base.values())
        flagged = flags(project, run_name=name, **TWO_STEPS)
        said = run(WORKER, project, plan, *flagged, cwd=tmp_path).stdout
        assert "lora: updates of rank 4 for " in said
        with np.load(record) as found, np.load(folder / KEPT) as base:
            assert found["steps"] == 2
            weights = [found[key] for key in found if key.startswith("weights/")]
            frozen = tables(base.values())
        kept = best(project, name)
        assert frozen and frozen <= tables(weights)
        assert not frozen & tables(kept.values())
        assert sum(key.endswith("lora_b") for key in kept) >= 6
        left.append([*weights, *kept.values()])
    assert_equal(*left)
    assert not (project / "runs/again").exists()  # it did not take the first step once more
    assert any(np.any(kept[key]) for key in kept if key.endswith("lora_b"))
