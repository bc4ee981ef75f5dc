"""check.py: wrong layers, records and labels are found by name, the shipped project is sound."""

import dataclasses
import functools
import importlib.util
import inspect
import json
import os
import re
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from forked_scripts import run_forked
from keras import ops
from projects import (
    ENVIRONMENT,
    TASKS,
    TEMPLATES,
    bake_project,
    check_records,
    flags,
    further,
    prepare,
    run,
    shorten,
    template_of,
)
from rich.cells import cell_len

use_template("relation_extraction")

from core.base import extras as door  # noqa: E402
from core.base.errors import InputError  # noqa: E402
from core.base.settings import CoreSettings, with_tables  # noqa: E402
from core.batches import DataGenerator  # noqa: E402
from core.data.checks import Finding  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from core.step import Models, TrainingModel  # noqa: E402
from extras.doctor import checking, model_checks, record_checks  # noqa: E402
from extras.tpu import compile_checks, static_checks, tpu_compile  # noqa: E402
from inspection import checks  # noqa: E402
from task.records import Example, Triple  # noqa: E402
from task.settings import Settings  # noqa: E402

LENGTH = 6
SETTINGS = with_tables(CoreSettings)()


class Layer(keras.layers.Layer):
    """A layer that keeps the shape of its inputs."""

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs.shape, "float32")


class BooleanMask(Layer):
    def call(self, inputs):
        return inputs + tf.reduce_sum(tf.boolean_mask(inputs, inputs > 0))


class WhereOfOne(Layer):
    def call(self, inputs):
        return inputs + tf.reduce_sum(tf.gather_nd(inputs, tf.where(inputs > 0)))


class Unique(Layer):
    def call(self, inputs):
        values, _ = tf.unique(tf.reshape(tf.stop_gradient(inputs), [-1]))
        return inputs + tf.reduce_sum(values)


class PythonFunction(Layer):
    def call(self, inputs):
        return tf.ensure_shape(tf.py_function(np.abs, [inputs], tf.float32), inputs.shape)


class NumpyFunction(Layer):
    def call(self, inputs):
        return tf.ensure_shape(tf.numpy_function(np.abs, [inputs], tf.float32), inputs.shape)


class ShapelessNumpyFunction(Layer):
    def call(self, inputs):
        return tf.numpy_function(np.abs, [inputs], tf.float32)


class AnyBatchSize(Layer):
    """Keeps all values, in a batch whose size depends on them."""

    def call(self, inputs):
        kept = tf.boolean_mask(inputs, inputs[..., 0] > -1e9)
        return tf.reshape(kept, [-1, tf.shape(inputs)[1], inputs.shape[-1]])


class SliceByValue(Layer):
    def call(self, inputs):
        longest = tf.cast(tf.reduce_max(inputs), tf.int32)
        return inputs + tf.reduce_sum(inputs[:, :longest])


class UniqueInLoop(Layer):
    def call(self, inputs):
        def add(index, total):
            values, _ = tf.unique(tf.reshape(tf.cast(inputs, tf.int32), [-1]))
            return index + 1, total + tf.cast(tf.size(values), tf.float32)

        return inputs + tf.while_loop(lambda index, _: index < 3, add, (0, 0.0))[1]


class NoGradient(Layer):
    def call(self, inputs):
        values, _ = tf.unique(tf.reshape(inputs, [-1]))
        return inputs + tf.reduce_sum(values)


class Words(Layer):
    def call(self, inputs):
        numbers = tf.strings.to_number(tf.strings.as_string(inputs))
        return inputs + tf.stop_gradient(numbers)


class Static(Layer):
    """Everything that looks dynamic and is not: three-argument where, top_k, a loop."""

    def call(self, inputs):
        best, _ = tf.math.top_k(inputs, 2)
        kept = tf.where(inputs > 0, inputs, 0.0)
        _, total = tf.while_loop(
            lambda index, _: index < 3, lambda i, t: (i + 1, t + kept), (0, kept)
        )
        return (
            total
            + tf.reduce_sum(best, axis=-1, keepdims=True)
            + inputs[:, : LENGTH // 2, :1][:, :1]
        )


class Normalised(Layer):
    """Divides by the mean of the batch: wrong on replicas."""

    def call(self, inputs):
        return inputs / (1.0 + ops.mean(ops.abs(inputs), axis=0, keepdims=True))


class Scaled(Layer):
    """Forgets its argument in get_config, which Keras can't know about."""

    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs):
        return inputs * self.factor

    def get_config(self):
        config = super().get_config()
        config.pop("factor", None)
        return config


class Needy(Layer):
    """Can't be built from what get_config returns."""

    def __init__(self, table, **kwargs):
        super().__init__(**kwargs)
        self.table = table

    def call(self, inputs):
        return inputs

    def get_config(self):
        return {"name": self.name}


class Unbuilt(Layer):
    """Holds a layer that it never calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.spare = Static(name="spare")

    def build(self, input_shape):
        pass

    def call(self, inputs):
        return inputs


class AddedLoss(Layer):
    """Adds a loss that is no output: a vector, which Keras would sum."""

    def call(self, inputs):
        self.add_loss(ops.mean(ops.square(inputs), axis=(1, 2)))
        return inputs


class SumLoss(keras.layers.Layer):
    def call(self, inputs):
        return ops.sum(ops.square(inputs), axis=(1, 2))


class MeanLoss(keras.layers.Layer):
    def call(self, inputs):
        return ops.mean(ops.square(inputs))


class TokenMeanLoss(keras.layers.Layer):
    """Divides by the tokens of the batch it sees: of each replica's own."""

    def call(self, inputs):
        mask = ops.cast(inputs[..., 0] > 0, "float32")
        return ops.sum(inputs[..., 0] * mask, axis=1) / (1.0 + ops.sum(mask))


class MixedGradient(Layer):
    """Puts out what it reads, but its gradient is also that of the other examples' outputs."""

    def call(self, inputs):
        mean = 1e-2 * ops.mean(inputs, axis=0, keepdims=True)
        return inputs + mean - ops.stop_gradient(mean)


class ReadsAnother(Layer):
    """Adds what another example of the batch is: so many places before it."""

    def __init__(self, shift, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift

    def call(self, inputs):
        return inputs + ops.roll(inputs, self.shift, axis=0)


class LambdaLoss(keras.layers.Lambda):
    def __init__(self, **kwargs):
        super().__init__(lambda x: ops.sum(ops.square(x), axis=(1, 2)), **kwargs)


class SpreadMeanLoss(keras.layers.Layer):
    def call(self, inputs):
        return ops.mean(ops.square(inputs)) + 0.0 * ops.sum(inputs, axis=(1, 2))


def build_models(culprit=None, loss=SumLoss) -> Models:
    """Return small models with one layer of the zoo in them."""
    keras.utils.set_random_seed(1)
    ids = keras.Input((None,), dtype="int32", name="ids")
    hidden = keras.layers.Embedding(20, 4, name="embedding")(ids)
    hidden = keras.layers.Dropout(0.5, name="dropout")(hidden)
    hidden = keras.layers.Dense(4, name="dense")(hidden)
    encoder = keras.Model(ids, hidden)
    if culprit is not None:
        hidden = culprit(name="culprit")(hidden)
    hidden = keras.layers.Dense(4, name="dense_1")(hidden)
    outputs = {"loss_1": loss(name="loss_1")(hidden)}
    training = TrainingModel({"ids": ids}, outputs, name="training")
    return Models(training, keras.Model(ids, hidden), encoder)


def build(*arguments, **changes) -> TrainingModel:
    """Return only the training model."""
    return build_models(*arguments, **changes).training


def build_compiled(*arguments) -> TrainingModel:
    """Return the same, compiled."""
    model = build(*arguments)
    model.compile(optimizer=keras.optimizers.SGD(0.01))
    return model


@pytest.fixture
def batch():
    """Five examples, and three that fill the batch up."""
    weight = np.array([0.2] * 5 + [0.0] * 3, np.float32)
    random = np.random.default_rng(1)
    ids = random.integers(0, 20, (model_checks.BATCH_SIZE, LENGTH)).astype(np.int32)
    return {"ids": ids, "loss_weight": weight}


@pytest.mark.parametrize(
    ("layer", "operation"),
    [
        (BooleanMask, "operation Where"),
        (WhereOfOne, "operation Where"),
        (Unique, "operation Unique"),
        (PythonFunction, "operation EagerPyFunc"),
        (NumpyFunction, "operation PyFunc"),
        (AnyBatchSize, "operation Where"),
        (SliceByValue, "unknown shape of StridedSlice"),
        (UniqueInLoop, "operation Unique"),
        (Words, "operation AsString"),
    ],
)
def test_dynamic_layers_are_named(layer, operation, batch):
    findings = static_checks.find_dynamic_shapes(build(layer), batch)
    assert [finding.what.partition(":")[0] for finding in findings] == ["layer training/culprit"]
    assert operation in findings[0].what
    assert points_to(findings[0], layer)


def points_to(finding, code) -> bool:
    """Tell whether a finding names a line of a class or function of this file."""
    lines, first = inspect.getsourcelines(code)
    named = re.search(r"; test_checks\.py, line (\d+)$", finding.where)
    return named is not None and first <= int(named[1]) < first + len(lines)


def test_a_layer_without_gradient_is_named(batch):
    (error,) = static_checks.find_dynamic_shapes(build(NoGradient), batch)
    assert error.level == "error" and points_to(error, NoGradient)
    assert error.what.startswith("layer training/culprit: operation Unique; no gradient (")


def test_a_layer_that_others_fail_after_is_named(batch):
    """A dense layer can't be called without the size of what it reads; its caller is at fault."""
    (error,) = static_checks.find_dynamic_shapes(build(ShapelessNumpyFunction), batch)
    assert error.level == "error" and points_to(error, ShapelessNumpyFunction)
    assert error.what.startswith("layer training/culprit: operation PyFunc; no gradient (")


def begin(monkeypatch, topology: str, settings=SETTINGS) -> checking.Checks:
    """Return what check.py begins with, where a flag asks for a TPU."""
    monkeypatch.setattr(checking, "read_settings", lambda *_: settings)
    return checking.begin_checks(CoreSettings, [f"--tpu={topology}"])[0]


@pytest.mark.parametrize(
    ("asked", "strategy", "level"),
    [("v5e:2x2", "auto", "error"), ("", "tpu", "error"), ("", "auto", "warning")],
)
def test_what_a_tpu_has_not_is_an_error_where_one_is_asked_for(
    monkeypatch, capsys, asked, strategy, level
):
    warning = Finding(
        "warning", "layer culprit: operation Where", "static graph for TPU", "stay off"
    )
    monkeypatch.setattr(checking, "check_model", lambda *_: [warning])
    checks = begin(monkeypatch, asked, SETTINGS.model_copy(update={"strategy": strategy}))
    with pytest.raises(SystemExit) as end:
        checking.finish_checks(checks, [], build_models(), None, None)
    assert end.value.code == (level == "error")
    assert str(dataclasses.replace(warning, level=level)) in capsys.readouterr().out


class ReluByPlaces(Layer):
    """Right on any part of a batch, but for a TPU: it looks for the places above 0."""

    def call(self, inputs):
        places = tf.where(inputs > 0)
        return tf.scatter_nd(
            places, tf.gather_nd(inputs, places), tf.shape(inputs, out_type=tf.int64)
        )


class Sequences(DataGenerator):
    """Random tokens of one length."""

    def __init__(self):
        super().__init__(np.full(model_checks.BATCH_SIZE, LENGTH), model_checks.BATCH_SIZE, 1)

    def make_batch(self, positions, length):
        random = np.random.default_rng(1)
        return {"ids": random.integers(0, 20, (len(positions), length), np.int32)}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(
    ("layer", "what"),
    [(ReluByPlaces, "operation Where"), (NoGradient, "operation Unique; no grad")],
)
def test_what_a_tpu_has_not_is_said_once(monkeypatch, capsys, layer, what):
    """Nothing is compiled after it, and no check that follows finds what it leads to."""
    checks, build_anew = begin(monkeypatch, "v5e:2x2"), functools.partial(build_models, layer)
    with pytest.raises(SystemExit):
        checking.finish_checks(checks, [], build_anew(), Sequences(), build_anew)
    *_, error, counted = capsys.readouterr().out.splitlines()
    assert error.startswith(f"error: layer training/culprit: {what}")
    assert counted == "errors: 1, warnings: 0"


@pytest.mark.parametrize(("flag", "extra"), [("--tpu=v5e:2x2", "tpu"), ("--memory", "recompute")])
def test_an_option_whose_folder_is_absent_says_how_to_get_it(monkeypatch, flag, extra):
    monkeypatch.setattr(door, "present", lambda: ["doctor"])
    monkeypatch.setattr(checking, "read_settings", lambda *_: SETTINGS)
    with pytest.raises(InputError, match=f"needs extras/{extra}: add it with"):
        checking.begin_checks(CoreSettings, [flag])


def test_static_layers_have_no_finding(batch):
    assert static_checks.find_dynamic_shapes(build(Static), batch) == []
    assert model_checks.find_config_faults(build(Static), batch) == []
    assert model_checks.find_split_faults(build(Static), batch) == []


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        (functools.partial(keras.layers.Lambda, lambda x: 2 * x), "can't be rebuilt"),
        (functools.partial(Needy, object()), "can't be rebuilt"),
        (functools.partial(Scaled, 3.0), "other outputs in a clone"),
    ],
)
def test_layers_without_a_right_config_are_named(layer, what, batch):
    (finding,) = model_checks.find_config_faults(build(layer), batch)
    assert finding.level == "error"
    assert finding.what.startswith("layer culprit") and what in finding.what
    is_lambda = layer.func is keras.layers.Lambda
    assert points_to(finding, layer.args[0] if is_lambda else layer.func)


def test_a_lambda_as_loss_is_named(batch):
    (finding,) = model_checks.find_config_faults(build(loss=LambdaLoss), batch)
    assert finding.what.startswith("layer loss_1 can't be rebuilt")
    assert points_to(finding, LambdaLoss)


@pytest.mark.parametrize(
    ("layer", "how"),
    [
        (AddedLoss, "add_loss"),
        (functools.partial(keras.layers.Dense, 4, kernel_regularizer="l2"), "a regularizer"),
        (functools.partial(keras.layers.Dense, 4, activity_regularizer="l2"), "add_loss"),
    ],
)
def test_losses_that_are_no_outputs_are_named(layer, how, batch):
    (finding,) = model_checks.find_added_losses(build(layer), batch)
    assert finding.level == "error"
    assert finding.what == f"layer culprit adds a loss by {how}, which is never trained"
    assert layer is not AddedLoss or points_to(finding, AddedLoss)
    assert model_checks.find_added_losses(build(), batch) == []


@pytest.mark.parametrize(
    ("layer", "loss", "name"),
    [
        (None, MeanLoss, "loss_1"),
        (None, SpreadMeanLoss, "loss_1"),
        (None, TokenMeanLoss, "loss_1"),
        (Normalised, SumLoss, "culprit"),
        (keras.layers.BatchNormalization, SumLoss, "culprit"),
    ],
)
def test_layers_that_mix_examples_are_named(layer, loss, name, batch):
    (finding,) = model_checks.find_split_faults(build(layer, loss), batch)
    assert finding.level == "error" and finding.what.startswith(f"layer {name} ")
    code = {"loss_1": loss, "culprit": layer}[name]
    assert code is keras.layers.BatchNormalization or points_to(finding, code)


def test_a_gradient_that_mixes_examples_is_found_where_outputs_do_not(batch):
    (finding,) = model_checks.find_split_faults(build(MixedGradient), batch)
    assert finding.what == "layer training has other gradients on parts of a batch"


@pytest.mark.parametrize(
    ("layer", "sound"),
    [(Static, True), (MixedGradient, False), (Normalised, False)],
)
def test_rounding_of_many_tokens_is_no_fault(layer, sound, batch):
    """The gradient of 48,000 equal tokens, as of a segment, depends on their order by 1e-4."""
    model, long = build(layer), {**batch, "ids": np.zeros((len(batch["ids"]), 6000), np.int32)}
    assert (model_checks.find_split_faults(model, long) == []) == sound
    with model_checks.without_dropout(model):
        whole, *shares = [
            np.asarray(model.gradients(model_checks.as_tensors(one))[0][0])
            for one in (long, *model_checks.split_batch(long))
        ]
    assert np.abs(whole - sum(shares)).max() > model_checks.SAME * np.abs(whole).max()


@pytest.mark.parametrize("shift", [1, -1, 4])
def test_an_example_that_reads_another_one_is_found(shift, batch):
    """The one before or behind it, or at the same place of the other part."""
    reads = functools.partial(ReadsAnother, shift)
    (finding,) = model_checks.find_split_faults(build(reads), batch)
    assert finding.what.startswith("layer culprit ")


# --------------------------------------------------------------------- compilation


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        (BooleanMask, "a size that depends on values"),
        (WhereOfOne, "a size that depends on values"),
        (Unique, "a size that depends on values"),
        (PythonFunction, "XLA refuses it"),
        (Words, "XLA refuses it"),
    ],
)
def test_what_a_tpu_has_not_is_found_in_the_lowered_step(layer, what, batch):
    findings = compile_checks.find_lowering_faults(build_compiled(layer), batch)
    assert any(f.what.startswith(f"layer training/culprit: {what}") for f in findings)


def test_the_lowered_step_of_static_layers_has_no_finding(batch):
    model = build_compiled(Static)
    assert compile_checks.find_lowering_faults(model, batch) == []
    text = compile_checks.lower(model, batch)(stage="hlo")
    # The whole step: the optimizer gives back every weight.
    kernels = [w for w in model.trainable_weights if w.name == "kernel"]
    outputs = text.partition("->")[2].partition("\n")[0]
    assert outputs.count("f32[4,4]") >= len(kernels) == 2


HAS_LIBTPU = importlib.util.find_spec("libtpu") and importlib.util.find_spec("jax")


@pytest.mark.skipif(not HAS_LIBTPU, reason="needs the packages of extras/tpu/requirements.txt")
def test_a_tpu_compiles_the_step(batch):
    model = build_compiled(Static)
    hlo = compile_checks.lower(model, batch)(stage="hlo_serialized")
    program = tpu_compile.compile_for_tpu_cores(hlo, "v5e:2x2")
    weights = sum(4 * weight.numpy().size for weight in model.trainable_weights)
    assert program.arguments > weights and program.code > 0
    with pytest.raises(InputError, match="v5e:nope is not a topology"):
        tpu_compile.count_cores("v5e:nope")


@pytest.mark.skipif(bool(HAS_LIBTPU), reason="the packages of extras/tpu are installed")
def test_without_a_compiler_for_tpus_the_option_explains_itself():
    with pytest.raises(InputError, match="--tpu needs jax and libtpu: pip install -r"):
        tpu_compile.count_cores("v5e:2x2")


def test_checking_leaves_the_model_as_it_was(batch):
    model = build(Normalised)
    before = model.get_weights()
    model_checks.find_split_faults(model, batch)
    assert model.get_layer("dropout").rate == 0.5
    assert not any("call" in vars(layer) for layer in model.layers)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_an_unbuilt_layer_is_named(batch):
    wrong = functools.partial(build_models, Unbuilt)
    (finding,) = model_checks.find_replica_faults(build(Unbuilt), batch, wrong, SETTINGS)
    assert finding.what == "layer culprit/spare is never built"


def test_random_numbers_that_replicas_share_are_named(batch):
    noisy = functools.partial(build_models, keras.layers.GaussianNoise)
    model = build(functools.partial(keras.layers.GaussianNoise, 0.1))
    (finding,) = model_checks.find_replica_faults(model, batch, noisy, SETTINGS)
    assert finding.level == "warning"
    assert (
        finding.what == "layer culprit draws other random numbers on several replicas than on one"
    )


@pytest.mark.further
@pytest.mark.trains
def test_two_replicas_differ_where_a_layer_mixes_examples(batch):
    wrong = functools.partial(build_models, Normalised)
    (finding,) = model_checks.find_replica_faults(build(Normalised), batch, wrong, SETTINGS)
    assert finding.what.startswith("weights differ by")


@pytest.mark.further
@pytest.mark.trains
def test_two_replicas_agree_where_each_example_stands_alone(batch):
    right = functools.partial(build_models, Static)
    assert model_checks.find_replica_faults(build(Static), batch, right, SETTINGS) == []


# ------------------------------------------------------------------------- records

Text = record_checks.Text
RECORDS = {
    "train.jsonl": [Text("A b", 1), Text("a  B", 2), Text("other", 3)],
    "dev.jsonl": [Text("ａ b", 1), Text("z", 2)],
    "test.jsonl": [Text("Z", 4)],
}
CLEAN = {"train.jsonl": [Text("a", 1)], "dev.jsonl": [Text("b", 1)]}


def test_repeats_and_leaks_are_found_with_their_lines():
    (duplicate,) = record_checks.find_duplicates(RECORDS)
    assert duplicate.level == "warning" and "lines 1, 2" in duplicate.where
    leak, lesser = record_checks.find_leaks(RECORDS)
    assert (leak.level, leak.where) == (
        "error",
        "dev.jsonl, line 1, is train.jsonl, line 1, for one",
    )
    assert (lesser.level, "test.jsonl, line 4" in lesser.where) == ("warning", True)


def test_repeats_with_other_labels_are_contradictions():
    """They are no repeats: who deleted one of them would lose labels."""
    train = [Text("a b", 3, ("x",)), Text("A  b", 5, ("x",)), Text("a B", 9, ("y", "z"))]
    dev = [Text("other", 1, ("x", "y")), Text("other", 2, ("y", "x"))]
    texts = {"train.jsonl": train, "dev.jsonl": dev}
    [repeat] = record_checks.find_duplicates(texts)
    assert repeat.where.startswith("dev.jsonl, lines 1, 2")
    [finding] = record_checks.find_contradictions(texts, "labels")
    assert finding.what == "the same text with different labels: 1 text"
    assert finding.where == "train.jsonl, line 3: x and train.jsonl, line 9: y + z, for one"
    assert "merge" in finding.fix and "delete" not in finding.fix
    # Of a file without labels nothing is contradicted.
    unknown = {"train.jsonl": train[:1], "test.jsonl": [Text("a b", 1, None)]}
    assert [*record_checks.find_contradictions(unknown, "labels")] == []


def test_texts_of_a_file_without_labels_are_only_noted():
    texts = {"train.jsonl": [Text("a", 1)], "test.jsonl": [Text("A", 1, None)]}
    [leak] = record_checks.find_leaks(texts)
    assert leak.level == "note" and "test.jsonl has no labels" in leak.fix
    [first] = record_checks.find_leaks_of_first_texts(texts)
    assert first.level == "note"


# The gold of a task, and a changed one.
OTHER_GOLD = {
    "event_extraction": {"events": []},
    "named_entity_recognition": {"entities": []},
    "reading_comprehension": {"answers": [[0, 4]]},
    "relation_extraction": {"triples": []},
    "seq2seq": {"targets": ["something else"]},
    "text_classification": {"label": "invoice"},
}


def write_label_otherwise(row) -> bool:
    """Write one label of a record in capitals; False: the task has none."""
    if "label" in row:
        row["label"] = row["label"].upper()
    for name, key in (("entities", "type"), ("triples", "predicate"), ("events", "type")):
        if name in row:
            row[name][0][key] = row[name][0][key].upper()
    return not row.keys() & {"answers", "targets"}


@pytest.mark.shown("relation_extraction", "text_classification")
@pytest.mark.trains
@pytest.mark.parametrize("template", sorted(OTHER_GOLD))
def test_each_task_tells_contradictions_and_files_without_labels(template, tmp_path):
    project = bake_project(template, tmp_path, "doctor")
    [(name, other)] = OTHER_GOLD[template].items()
    lines = (project / "sample/train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row[name] not in ([], other)][:40]
    spelled = write_label_otherwise(rows[5])
    files = {
        "train": [*rows, {**rows[0], "id": "again", name: other}],
        "test": [{key: value for key, value in row.items() if key != name} for row in rows[:3]],
    }
    for stem, records in files.items():
        text = "".join(json.dumps(row) + "\n" for row in records)
        (project / f"sample/{stem}.jsonl").write_text(text, encoding="utf-8")
    done = run(check_records(project), *flags(project), cwd=project)
    shown = [line for line in done.stdout.splitlines() if "the same text with different" in line]
    assert len(shown) == 1 and "sample/train.jsonl, line 1: " in shown[0], done.stdout
    assert "sample/train.jsonl, line 41: " in shown[0] and "merge" in shown[0]
    assert "repeated texts" not in done.stdout
    assert ("warning: labels that differ only in how they are written: " in done.stdout) == spelled
    shared = [line for line in done.stdout.splitlines() if line.startswith("note: texts of sample")]
    assert len(shared) == 1 and "no labels" in shared[0]
    assert done.stdout.splitlines()[-1].startswith("errors: 0, warnings: ")
    assert ", notes: " in done.stdout.splitlines()[-1]
    if template != "seq2seq":  # it has no oracle; one of 0.0 would say that the data is wrong
        _, _, told = done.stdout.partition("\nsample/test.jsonl: ")
        assert "oracle: none, because no " in told and "oracle (gold" not in told


def test_a_test_file_that_is_absent_is_said(tmp_path, capsys):
    settings = Settings.model_construct(
        train_file="a", dev_file="b", test_file=str(tmp_path / "no.jsonl")
    )
    assert list(record_checks.read_files(settings, lambda path, required: [path])) == ["a", "b"]
    assert "no.jsonl' is not a file, so it is not checked." in capsys.readouterr().out


def test_clean_data_has_no_findings():
    for find in (record_checks.find_duplicates, record_checks.find_leaks):
        assert list(find(CLEAN)) == []
    known = {"train": Counter(a=1), "dev": Counter(a=3)}
    assert list(record_checks.find_unseen_labels(known)) == []


def test_labels_that_train_never_shows():
    labels = {"train": Counter(a=1), "dev": Counter(a=1, b=2, c=5)}
    (finding,) = record_checks.find_unseen_labels(labels)
    assert finding.where == "dev: c (5), b (2)" and "2, of 7 items" in finding.what
    assert str(finding).startswith("warning: labels never seen in train")


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        ({"a": 5, "A": 1}, "differ only in how they are written: 1 ("),
        ({"not ok": 5, "Not-OK": 1, "not_ok": 1}, "differ only in how they are written: 1 ("),
        ({"1": 5, "1.0": 2}, "differ only in how they are written: 1 ("),
        ({"ａ": 5, "a": 1}, "differ only in how they are written: 1 ("),
        ({"x": 5, "NaN": 3, "null": 1}, "look like an empty cell: 2, of 4 items (train: 'NaN'"),
        ({"x": 5, '{"choices": ["x"]}': 2}, "are a list or an object in JSON: 1, of 2 items"),
    ],
)
def test_strange_labels_are_named(labels, what):
    [finding] = record_checks.find_strange_labels({"train": Counter(labels)})
    assert finding.level == "warning" and f"labels that {what}" in str(finding)
    # In two files just as well.
    first, *others = labels
    files = {"train": Counter([first]), "dev": Counter(labels)}
    assert len([*record_checks.find_strange_labels(files)]) == 1


def test_labels_of_different_words_are_not_strange():
    labels = ("+1", "-1", "1", "10", "1.5", "15", "a", "b", "none", "NA", "[CLS]", "a/b", "a b c")
    assert [*record_checks.find_strange_labels({"train": Counter(labels)})] == []


def test_length_histogram_counts_everything_once():
    lengths = [3, 3, 4, 17, 250]
    lines = record_checks.length_histogram(lengths, "tokens")
    assert lines[0].startswith("tokens: shortest 3, median 4") and len(lines) <= 11
    assert all(" to " in line for line in lines[1:])
    assert sum(int(line.split()[0]) for line in lines[1:]) == len(lengths)
    assert record_checks.length_histogram([], "tokens") == ["tokens: no record"]
    [_, line] = record_checks.length_histogram([7], "tokens")
    assert line.split()[0] == "1" and line.split()[-1] == "7"


def test_label_bars_line_up_for_chinese_names():
    counts = Counter({"总部位于": 30, "born_in": 3, "x" * 80: 1, "a\nb": 1})
    lines = record_checks.label_histogram(counts, "predicates")
    assert lines[0] == "predicates: 4 kinds, 35 in all" and len(lines) == 5
    names = ("总部位于", "born_in", r"a\nb", "x" * 80)
    assert [int(line.split()[0]) for line in lines[1:]] == [30, 3, 1, 1]
    assert all(line.endswith(name) for line, name in zip(lines[1:], names, strict=True))
    pairs = zip(lines[1:], names, strict=True)
    assert len({cell_len(line.removesuffix(name)) for line, name in pairs}) == 1
    short = record_checks.label_histogram(counts, most=1)
    assert short[-1].endswith("and 3 more, 5 in all")


# ---------------------------------------------------------------- what can be reached

TEXTS = ["ada founded zenco in 1999", "zenco of ada", "bob founded acme", "acme of bob, ada"]


def reach(example):
    settings = with_tables(Settings)(max_length=16, window_overlap=4)
    tokenizer = train_tokenizer(4 * TEXTS, 100)
    return checks.measure_reach([example], tokenizer, ["founded"], settings)


def founded(subject, object_, text=TEXTS[0], predicate="founded"):
    return Example("a", text, (Triple(subject, predicate, object_),), None, 7)


def test_oracle_is_perfect_where_everything_is_aligned():
    found = reach(founded((0, 3), (12, 17)))
    assert (found.oracle["f1"], found.oracle["gold"], len(found.tokens)) == (1.0, 1, 1)
    assert checks.find_reach_faults("train.jsonl", found) == []


def test_unaligned_spans_are_found_with_their_line():
    found = reach(founded((0, 3), (12, 16)))
    assert found.oracle["f1"] == 0
    unaligned, oracle = checks.find_reach_faults("train.jsonl", found)
    assert unaligned.where.startswith("train.jsonl, line 7, [12, 16] 'zenc' for one: meant is ")
    assert (oracle.level, "1 triples are lost" in oracle.where) == ("error", True)
    # No triple is invented: other heads would help nobody.
    assert oracle.fix == "fix the findings above."


def test_triples_that_share_their_heads_ask_for_heads_of_their_own():
    """Two people founded two firms: the heads of a pair say who founded what, but not which."""
    found = checks.Reach([9], [], [], {"f1": 0.8, "gold": 2, "correct": 2, "predicted": 3})
    [oracle] = checks.find_reach_faults("train.jsonl", found)
    assert "0 triples are lost, 1 invented" in oracle.where
    assert oracle.fix == 'entity_heads = "per_predicate" tells more triples apart.'


def test_triples_beyond_every_window_are_found():
    text = "ada " + "founded " * 30 + "zenco"
    found = reach(founded((0, 3), (len(text) - 5, len(text)), text))
    assert len(found.tokens) > 1
    apart, _ = checks.find_reach_faults("train.jsonl", found)
    assert apart.what.startswith("triples whose spans never share a window: 1")


def test_triples_beyond_those_that_a_window_keeps_are_named():
    text = " ".join(70 * ["ada"])
    gold = tuple(Triple((0, 3), "founded", (4 * n, 4 * n + 3)) for n in range(1, 70))
    example = Example("a", text, gold, None, 7)
    settings = with_tables(Settings)(max_length=100, window_overlap=4)
    tokenizer = train_tokenizer(4 * TEXTS, 100)
    found = checks.measure_reach([example], tokenizer, ["founded"], settings)
    assert found.crowded == 5 * [7]
    crowded, oracle = checks.find_reach_faults("dev.jsonl", found)
    assert "triples beyond the 64 subjects, 64 objects and 256 triples" in crowded.what
    assert crowded.where == "dev.jsonl, line 7 for one" and oracle.level == "warning"
    # A predicate that training lacks is another finding.
    unseen = reach(founded((0, 3), (12, 17), predicate="left"))
    assert unseen.crowded == [] and unseen.oracle["f1"] == 0


def test_dev_that_is_train_has_its_leaks_found(tmp_path):
    settings = Settings.model_construct(train_file="a", dev_file="a", test_file="no")
    files = record_checks.read_files(settings, lambda path, required: [Text("b", 1)])
    assert [*files] == ["a", "a (dev_file)"]
    [leak] = record_checks.find_leaks(files)
    assert leak.level == "error" and "take them out of a" in leak.fix


def test_a_dev_file_without_gold_is_named():
    texts = {"train": [Text("a", 1, ("x",))], "dev": [Text("b", 1, ()), Text("c", 2, None)]}
    [finding] = record_checks.find_missing_gold(texts)
    assert (finding.level, finding.where) == ("warning", "dev")
    texts["dev"].append(Text("d", 3, ("x",)))
    assert [*record_checks.find_missing_gold(texts)] == []


def test_partial_annotation_asks_for_entity_heads_of_its_own():
    partial = [Example("a", "ada", (), ("founded",), 1)]
    whole = 4 * [Example("b", "bob", (), None, 2)]
    shared, own = Settings.model_construct(), Settings.model_construct(entity_heads="per_predicate")

    def faults(settings, examples) -> list[str]:
        findings = checks.find_data_faults({settings.train_file: examples}, settings)
        return [found.what for found in findings if "annotated_predicates" in found.what]

    (fault,) = faults(shared, partial + whole)
    assert fault.startswith("1 of 5 records list annotated_predicates")
    assert faults(shared, partial + 2 * whole) == [] and faults(own, partial) == []


@pytest.fixture(params=further(TEMPLATES, "relation_extraction", "text_classification"))
def project(request, tmp_path):
    """The project as baked: with default answers."""
    return bake_project(request.param, tmp_path)


def run_check(project, *flags, anew=False):
    return run(project / "check.py", *flags, cwd=project, check=False, anew=anew)


@pytest.mark.further
@pytest.mark.trains
def test_the_shipped_project_is_sound(project):
    files = sorted(project.rglob("*.jsonl"))
    prepare(project)
    # The model has its own size in one task; it is smaller in the others, which share the checks.
    # In that task it also starts interpreters, as users do: forks show the rest.
    small = ["--tiny_layers", "1", "--tiny_width", "32", "--buckets", "2"]
    whole = template_of(project) == "text_classification"
    done = run_check(project, *([] if whole else small), anew=whole)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "UserWarning" not in done.stderr
    assert done.stdout.splitlines()[-1] == "sound"
    assert sorted(project.rglob("*.jsonl")) == files and not (project / "runs").exists()


@pytest.mark.trains
@pytest.mark.parametrize("template", TASKS)
def test_a_leak_is_an_error(template, tmp_path):
    project = bake_project(template, tmp_path, "doctor")
    first = (project / "sample/dev.jsonl").read_text(encoding="utf-8").splitlines()[0]
    shorten(project, {"train": 24, "dev": 24, "test": 24})
    with open(project / "sample/train.jsonl", "a", encoding="utf-8") as file:
        file.write(first.replace('"id": "', '"id": "again ', 1) + "\n")
    done = run(check_records(project), *flags(project), cwd=project, check=False)
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "of sample/dev.jsonl that are in sample/train.jsonl too: 1" in errors[0]


@pytest.mark.trains
def test_a_missing_input_is_an_error(tmp_path):
    project = bake_project("relation_extraction", tmp_path, "doctor")
    data = project / "task/data.py"
    code = data.read_text(encoding="utf-8")
    data.write_text(code.replace('batch["annotated"]', 'batch["noted"]'), encoding="utf-8")
    done = run_check(project)
    assert done.returncode == 1, done.stderr
    assert "missing keys ['annotated'], keys that no input reads ['noted']" in done.stdout
    assert done.stdout.splitlines()[-1] == "errors: 1, warnings: 0"


@pytest.mark.further
@pytest.mark.trains
def test_predicted_compilations_are_those_of_a_training(tmp_path):
    project = bake_project("text_classification", tmp_path)
    shorten(project, {"train": 40, "dev": 8, "test": 8})
    asked = flags(project, **{"devices.xla": True}, epochs=1, batch_size=8, buckets=2)
    done = run_check(project, *asked)
    predicted = re.search(r"on a TPU: (\d+) compilations", done.stdout)
    dump = tmp_path / "dump"
    flags_of_dump = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
    dumped = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {flags_of_dump}"}
    [training] = run_forked(["train.py", *asked], project, [{**ENVIRONMENT, **dumped}])
    assert training.returncode == 0, training.stderr
    # The layer and the head are compiled once for each length.
    compiled = [*dump.glob("*forward_run*before_optimizations.txt")]
    assert len(compiled) / 2 == int(predicted[1]) == 2
