"""Dropout masks: the same for a row in any batch, and other ones in every step and layer."""

import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from projects import run

from core.exact.dropout import Masks, named_layers, place_dropout


def draw(rows, step=0, number=0, shape=(6, 5), rate=0.3, calls=1, place=0, seed=3):
    """Return what a layer of a placed model makes of ones, after so many calls."""
    inputs = keras.Input(shape)
    layers = [keras.layers.Dropout(rate) for _ in range(place + 1)]
    hidden = inputs
    for layer in layers:
        hidden = layer(hidden)
    place_dropout(keras.Model(inputs, hidden), seed)
    with Masks(tf.constant(step), tf.constant(rows), number).drawn():
        for _ in range(calls):
            output = layers[-1](tf.ones((len(rows), *shape)), training=True)
    return output.numpy()


@pytest.mark.parametrize("shape", [(8,), (6, 5), (3,), (2, 7, 7)])
def test_rows_drop_the_same_places_alone_and_together(shape):
    whole = draw(range(8), shape=shape)
    for start, end in ((0, 4), (4, 8), (3, 4), (2, 6)):
        np.testing.assert_array_equal(draw(range(start, end), shape=shape), whole[start:end])
    assert len({row.tobytes() for row in draw(range(8), shape=(64,))}) == 8


def test_masks_differ_by_step_pass_call_layer_and_seed():
    changes = ({}, {"step": 1}, {"number": 1}, {"calls": 2}, {"place": 1}, {"rows": range(8, 16)})
    changes += ({"seed": 4},)
    masks = [draw(**{"rows": range(8), "shape": (64,), **change}) for change in changes]
    for index, one in enumerate(masks):
        for other in masks[:index]:
            agreement = np.mean((one == 0) == (other == 0))
            assert abs(agreement - (0.3**2 + 0.7**2)) < 0.1  # that of independent draws


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_is_what_is_dropped_and_the_mean_stays(rate):
    output = draw(range(64), shape=(50, 32), rate=rate)
    deviation = np.sqrt(rate * (1 - rate) / output.size)
    assert np.mean(output == 0) == pytest.approx(rate, abs=4 * deviation)
    np.testing.assert_allclose(output[output > 0], 1 / (1 - rate), rtol=1e-4)
    # Neighbours, in the row and in the batch, know nothing of each other.
    dropped = (output == 0) - rate
    for one, other in ((dropped[1:], dropped[:-1]), (dropped[..., 1:], dropped[..., :-1])):
        assert abs(np.mean(one * other)) < 4 * rate * (1 - rate) / np.sqrt(one.size)


def test_the_gradient_is_the_mask():
    layer = keras.layers.Dropout(0.4)
    inputs = keras.Input((9,))
    place_dropout(keras.Model(inputs, layer(inputs)), seed=1)
    values = tf.Variable(np.random.default_rng(1).normal(size=(4, 9)).astype("float32"))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape, Masks(tf.constant(2), tf.range(4)).drawn():
            output = layer(values, training=True)
            loss = tf.reduce_sum(output**3)
        slope = tape.gradient(loss, values)
    mask = output / values
    np.testing.assert_allclose(slope, 3 * output**2 * mask, rtol=1e-6)
    second = outer.gradient(slope, values)
    np.testing.assert_allclose(second, 6 * output * mask**2, rtol=1e-6)


def test_dropout_of_every_encoder_is_placed():
    """Those of KerasHub's own layers too; one that shares bits among places stays as it is."""
    encoder = keras_hub.models.RobertaBackbone(30, 2, 2, 8, 16, dropout=0.2, max_sequence_length=9)
    inputs = {tensor.name: tensor for tensor in encoder.inputs}
    noisy = keras.layers.Dropout(0.2, noise_shape=(None, 1, 8))
    model = keras.Model(inputs, noisy(encoder(inputs)))
    place_dropout(model, 1)
    layers = [layer for _, layer in named_layers(model) if isinstance(layer, keras.layers.Dropout)]
    assert [bool(getattr(layer, "stream", "")) for layer in layers if layer is not noisy] == [
        True
    ] * 7
    assert type(noisy) is keras.layers.Dropout
    batch = {"token_ids": np.arange(24).reshape(4, 6), "padding_mask": np.ones((4, 6), bool)}
    with Masks(tf.constant(0), tf.range(4)).drawn():
        whole = encoder(batch, training=True)
    with Masks(tf.constant(0), tf.range(2, 4)).drawn():
        half = encoder({name: array[2:] for name, array in batch.items()}, training=True)
    np.testing.assert_allclose(half, whole[2:], atol=1e-6)
    with Masks(tf.constant(1), tf.range(4)).drawn():
        assert np.abs(encoder(batch, training=True) - whole).max() > 1e-2


ON_REPLICAS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import keras, tensorflow as tf
from core.exact.dropout import place_dropout

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
found = {}
for name, devices in {"one": ["CPU:0"], "two": ["CPU:0", "CPU:1"]}.items():
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        inputs = keras.Input((20,))
        noise = keras.layers.GaussianNoise(1.0, seed=7)
        channels = keras.layers.SpatialDropout1D(0.5, seed=8)
        hidden = keras.layers.Reshape((20, 1))(noise(inputs))
        model = keras.Model(inputs, channels(keras.ops.concatenate([hidden] * 8, axis=-1)))
    place_dropout(model, 1)
    step = tf.function(lambda: strategy.run(lambda: model(tf.zeros((2, 20)), training=True)))
    found[name] = [
        [part.numpy().tolist() for part in strategy.experimental_local_results(step())]
        for _ in range(2)
    ]
print(json.dumps(found))
"""


@pytest.mark.trains
def test_other_random_layers_draw_numbers_of_their_own_on_each_replica(tmp_path):
    """As one replica alone does on the first, and others in each step."""
    (tmp_path / "draw.py").write_text(ON_REPLICAS, encoding="utf-8")
    done = run(tmp_path / "draw.py", ROOT / "templates", cwd=tmp_path)
    found = json.loads(done.stdout.splitlines()[-1])
    drawn = [np.array(part) for step in found["two"] for part in step]
    assert [len(step) for step in found["two"]] == [2, 2]
    for index, one in enumerate(drawn):
        # Both the noise and which channels are dropped.
        assert all(np.any(one != other) for other in drawn[:index])
        assert all(np.any((one == 0) != (other == 0)) for other in drawn[:index])
    np.testing.assert_array_equal([step[0] for step in found["two"]], np.array(found["one"])[:, 0])


def test_dropout_outside_of_a_training_is_that_of_keras():
    layer = keras.layers.Dropout(0.5)
    inputs = keras.Input((9,))
    model = keras.Model(inputs, layer(inputs))
    place_dropout(model, seed=1)
    ones = np.ones((4, 9), "float32")
    np.testing.assert_array_equal(model(ones), ones)
    assert np.any(model(ones, training=True) != model(ones, training=True))
    copy = keras.models.clone_model(model)
    assert copy.layers[-1].get_config() == layer.get_config()
