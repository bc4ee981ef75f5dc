"""Recomputed layers: the same losses and gradients, dropout on; check.py --memory: what fits."""

import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from projects import bake_project, flags, run, shorten

from core.base.errors import InputError
from core.base.settings import CoreSettings, with_tables
from core.encoders.encoder import BertEncoder
from core.exact.dropout import Masks, place_dropout
from extras.recompute import memory
from extras.recompute.recompute import recompute_layers

WIDTH, LENGTH, LAYERS = 16, 9, 3


def make_encoder() -> keras.Model:
    return BertEncoder(
        vocabulary_size=20,
        num_layers=LAYERS,
        num_heads=2,
        hidden_dim=WIDTH,
        intermediate_dim=2 * WIDTH,
        max_sequence_length=LENGTH,
        dropout=0.3,
        attention_dropout=0.2,
    )


def make_decoder() -> keras.Model:
    """A decoder that reads the encoder: gradients flow through both of its inputs."""
    encoder = make_encoder()
    target = keras.Input((None, WIDTH), name="target")
    read = encoder.output["sequence_output"]
    decoder = keras_hub.layers.TransformerDecoder(2 * WIDTH, 2, dropout=0.3)
    written = decoder(target, read, encoder_padding_mask=encoder.input["padding_mask"])
    return keras.Model({**encoder.input, "target": target}, {"sequence_output": written})


def batch() -> dict[str, tf.Tensor]:
    random = np.random.default_rng(0)
    return {
        "token_ids": tf.constant(random.integers(0, 20, (4, LENGTH))),
        "segment_ids": tf.zeros((4, LENGTH), tf.int32),
        "padding_mask": tf.constant(np.arange(LENGTH) < np.array([[9], [5], [7], [2]])),
        "target": tf.constant(random.normal(size=(4, LENGTH, WIDTH)), tf.float32),
    }


def steps(make, recompute: bool, count: int = 3) -> tuple[list, list, tf.Graph]:
    """Return the losses and the gradients of some steps, each with dropout masks of its own."""
    keras.utils.set_random_seed(1)
    model = make()
    place_dropout(model, 1)
    if recompute:
        recompute_layers(model)

    @tf.function
    def step(batch, number):
        with tf.GradientTape() as tape, Masks(number, tf.range(4)).drawn():
            inputs = {tensor.name: batch[tensor.name] for tensor in model.inputs}
            # Of an even power no terms cancel, so the loss is rounded as its terms are.
            loss = tf.reduce_sum(model(inputs, training=True)["sequence_output"] ** 4)
        weights = [variable.value for variable in model.trainable_variables]
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    numbers = tf.range(count)
    losses, gradients = zip(*(step(batch(), number) for number in numbers), strict=True)
    graph = step.get_concrete_function(batch(), numbers[0]).graph
    return [float(loss) for loss in losses], gradients, graph


@pytest.mark.shown("make_encoder")
@pytest.mark.trains
@pytest.mark.parametrize("make", [make_encoder, make_decoder])
def test_losses_and_gradients_are_those_without(make):
    losses, gradients, graph = steps(make, recompute=False)
    again_losses, again_gradients, again_graph = steps(make, recompute=True)
    np.testing.assert_allclose(again_losses, losses, rtol=1e-6)
    assert len(set(losses)) == len(losses)  # dropout draws anew at each step
    for ours, theirs in zip(again_gradients, gradients, strict=True):
        # Small elements are sums of large ones, and are rounded as these are.
        largest = max(np.abs(array).max() for array in theirs)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * largest)
    assert any(np.abs(array).max() > 0.1 for array in gradients[0])
    products = [
        sum("MatMul" in operation.type or operation.type == "Einsum" for operation in ops)
        for ops in (graph.get_operations(), again_graph.get_operations())
    ]
    assert products[1] >= products[0] + 6 * LAYERS  # of each layer all but the gradients, again


def test_prediction_computes_once_and_the_same():
    keras.utils.set_random_seed(1)
    model = make_encoder()
    inputs = {tensor.name: batch()[tensor.name] for tensor in model.inputs}
    before = model(inputs)["sequence_output"]
    recompute_layers(model)
    recompute_layers(model)  # a second time changes nothing
    np.testing.assert_array_equal(model(inputs)["sequence_output"], before)


def test_masks_that_nobody_places_are_computed_once():
    """Keras would draw others the second time: the gradient stays that of the loss."""
    keras.utils.set_random_seed(1)
    model = make_encoder()
    recompute_layers(model)
    inputs = {tensor.name: batch()[tensor.name] for tensor in model.inputs}
    table = model.token_embedding.embeddings.value
    with tf.GradientTape(persistent=True) as tape:
        output = model(inputs, training=True)["sequence_output"]
        product = tf.reduce_sum(output[0, 0] ** 3)
    found = tape.gradient(product, table)
    again = tape.gradient(product, table)
    np.testing.assert_array_equal(tf.convert_to_tensor(found), tf.convert_to_tensor(again))


def test_a_copy_has_the_same_weights_and_configuration():
    model = make_encoder()
    recompute_layers(model)
    copy = keras.models.clone_model(model)
    assert [w.shape for w in copy.weights] == [w.shape for w in model.weights]
    assert type(model).from_config(model.get_config()).count_params() == model.count_params()


def test_a_model_without_such_layers_is_refused():
    inputs = keras.Input((4,))
    with pytest.raises(
        InputError, match="add its kind of layer to KINDS .* or set enabled = false"
    ):
        recompute_layers(keras.Model(inputs, keras.layers.Dense(2)(inputs)))


# ------------------------------------------------------------- check.py --memory


@pytest.mark.trains
def test_recomputing_changes_no_loss(tmp_path):
    project = bake_project("seq2seq", tmp_path, "doctor, recompute")
    shorten(project, {"train": 40, "dev": 8, "test": 8})
    found = []
    for recompute in (False, True):
        asked = flags(project, batch_size=8, dropout=0.3, learning_rate=1e-2)
        asked += ["--recompute.enabled", str(recompute).lower()]
        done = run(project / "check.py", *asked, "--memory_trial", cwd=project)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert [one["recompute"] for one in found] == [False, True]
    assert len(set(found[0]["losses"])) == 1 + memory.TIMED_STEPS
    np.testing.assert_allclose(found[1]["losses"], found[0]["losses"], rtol=1e-5)
    assert all(one["peak"] > 0 and one["examples_per_second"] > 0 for one in found)


SETTINGS = with_tables(CoreSettings).model_construct(batch_size=16)


def try_with(monkeypatch, capsys, free: float, fits) -> list[list[str]]:
    """Return the rows that are printed, where a step of n examples takes n bytes."""

    def trial(asked):
        batch_size = int(asked[asked.index("--batch_size") + 1])
        recompute = asked[asked.index("--recompute.enabled") + 1] == "true"
        found = {"peak": batch_size << 20, "examples_per_second": 1.0}
        return found if fits(batch_size, recompute) else None

    monkeypatch.setattr(memory, "run_trial", trial)
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    memory.try_batch_sizes(SETTINGS, ["--seed", "3"])
    return [line.split() for line in capsys.readouterr().out.splitlines()[3:]]


def test_sizes_double_until_one_does_not_fit(monkeypatch, capsys):
    rows = try_with(
        monkeypatch, capsys, float("inf"), lambda size, recompute: size <= 32 + 32 * recompute
    )
    assert [row[:2] for row in rows] == [
        *(["16", "no"], ["32", "no"], ["64", "no"]),
        *(["16", "yes"], ["32", "yes"], ["64", "yes"], ["128", "yes"]),
    ]
    assert rows[1][2:] == ["32", "MiB", "1.0"]
    assert rows[2][2:] == rows[6][2:] == ["does", "not", "fit"]


def test_what_would_exhaust_the_machine_is_not_tried(monkeypatch, capsys):
    rows = try_with(monkeypatch, capsys, 40 << 20, lambda *_: True)
    assert [row[0] for row in rows] == ["16", "32", "64"] * 2
    assert rows[2][2:4] == ["not", "tried:"]


BERT_BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}
QWEN2 = {
    "model_type": "qwen2",
    "vocab_size": 151936,
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
}


def test_the_weights_of_an_encoder_are_known_by_its_sizes():
    encoder, width = make_encoder(), WIDTH
    fields = {
        "vocab_size": 20,
        "dim": width,
        "n_layers": LAYERS,
        "n_heads": 2,
        "hidden_dim": 2 * width,
        "max_position_embeddings": LENGTH,
    }
    # But for segments, the first normalisation, and the pooler.
    others = 4 * width + width * (width + 1)
    assert memory.shape_of(fields).weights == encoder.count_params() - others
    assert memory.shape_of(BERT_BASE).weights / 109.5e6 == pytest.approx(1, abs=0.01)
    assert memory.shape_of(QWEN2).weights / 494e6 == pytest.approx(1, abs=0.01)
    with pytest.raises(KeyError):
        memory.shape_of({"hidden_size": 8})


def test_an_estimate_comes_before_anything_is_loaded(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.json").write_text(json.dumps(BERT_BASE), encoding="utf-8")
    monkeypatch.setattr(memory, "free_memory", lambda: 3 << 30)
    sizes = {"batch_size": 16, "max_length": 128}
    settings = with_tables(CoreSettings)(encoder=str(tmp_path), lora={"rank": 4}, **sizes)
    memory.print_estimate(settings)
    rows = {line[:20].strip(): line[20:].split() for line in capsys.readouterr().out.splitlines()}
    names = ("all weights", "lora, rank 4", "lora, rank 4, int8", "lora, rank 4, int4")
    whole, lora, int8, int4 = (rows[name] for name in names)
    # 16 bytes for each of 109 million weights; beside a frozen base 12 for each of an update.
    assert whole[:2] == ["415", "1246"] and whole[4:] == ["does", "not", "fit"]
    updates = 12 * 4 * (4 * 2 * 768 + 2 * (768 + 3072))
    assert int(lora[1]) == round(12 * updates / 2**20)
    assert int(lora[0]) == round((4 * updates + 4 * memory.shape_of(BERT_BASE).weights) / 2**20)
    assert int(int8[0]) < 0.5 * int(lora[0]) and int8[4:] == ["fits"]
    assert int(int4[0]) <= int(int8[0]) and int4[4:] == ["fits"]
    kept = json.dumps({**BERT_BASE, "hidden_size": None})
    (tmp_path / "config.json").write_text(kept, encoding="utf-8")
    memory.print_estimate(settings)
    assert capsys.readouterr().out.startswith("no estimate: no config.json has the sizes of")


def test_another_failure_is_one_sentence(tmp_path, monkeypatch):
    script = tmp_path / "check.py"
    monkeypatch.setattr("sys.argv", [str(script)])
    script.write_text("import sys; sys.exit('config.toml, line 3: no.')", encoding="utf-8")
    with pytest.raises(InputError, match="config.toml, line 3: no."):
        memory.run_trial([])
    script.write_text("import sys; sys.exit('ResourceExhausted: OOM when ...')", encoding="utf-8")
    assert memory.run_trial([]) is None
