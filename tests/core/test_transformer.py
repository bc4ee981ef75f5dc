"""Transformer layers, fused: the numbers and gradients of KerasHub's own; that they are in use."""

import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from projects import run
from scipy.special import erf

from core.encoders.encoder import BertEncoder
from core.exact.dropout import Masks, named_layers, place_dropout
from core.fast.transformer import (
    LayerNormalization,
    SelfAttention,
    TransformerLayer,
    exact_gelu_function,
    fuse_layer,
    tanh_gelu_function,
)

WIDTH = 16
PADDING = np.arange(6) < [[6], [4], [1]]
CAUSAL = np.broadcast_to(np.tri(6, dtype=bool), (3, 6, 6))
MASKS = {
    "none": {},
    "padding": {"padding_mask": PADDING},
    "attention": {"attention_mask": CAUSAL},
    "both": {"padding_mask": PADDING, "attention_mask": CAUSAL},
}


def make_layer(**changes) -> keras_hub.layers.TransformerEncoder:
    keras.utils.set_random_seed(1)
    layer = keras_hub.layers.TransformerEncoder(
        **{"intermediate_dim": 24, "num_heads": 4, "activation": "relu", **changes}
    )
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(random.normal(size=weight.shape) * 0.3 + 0.1)
    return layer


def hidden_states() -> tf.Tensor:
    return tf.constant(np.random.default_rng(3).normal(size=(3, 6, WIDTH)), "float32")


def outputs_and_gradients(layer, inputs, **kwargs) -> list[np.ndarray]:
    """Return outputs, and gradients of some sum of them by inputs and weights, in a graph."""
    random = np.random.default_rng(4).normal(size=inputs.shape).astype("float32")

    @tf.function
    def compute(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, **kwargs)
            loss = tf.reduce_sum(tf.cast(outputs, "float32") * random)
        variables = [variable.value for variable in layer.trainable_variables]
        return [outputs, *tape.gradient(loss, [inputs, *variables])]

    return [np.asarray(tf.cast(array, "float32")) for array in compute(inputs)]


@pytest.mark.trains
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("normalize_first", [False, True])
def test_numbers_are_those_of_keras_hub(masks, normalize_first):
    layer, inputs = make_layer(normalize_first=normalize_first), hidden_states()
    expected = outputs_and_gradients(layer, inputs, **MASKS[masks])
    fuse_layer(layer)
    found = outputs_and_gradients(layer, inputs, **MASKS[masks])
    assert len(found) == 2 + len(layer.weights)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_parts_are_fused_in_every_encoder():
    encoder = BertEncoder(
        vocabulary_size=50,
        num_layers=2,
        num_heads=2,
        hidden_dim=WIDTH,
        intermediate_dim=32,
        max_sequence_length=20,
    )
    for copy in (encoder, keras.models.clone_model(encoder)):
        for layer in copy.transformer_layers if copy is encoder else transformer_layers(copy):
            assert type(layer) is TransformerLayer
            assert type(layer._self_attention_layer) is SelfAttention
            assert type(layer._self_attention_layer_norm) is LayerNormalization
            assert type(layer._feedforward_layer_norm) is LayerNormalization
            dense = layer._feedforward_intermediate_dense
            assert dense.activation is exact_gelu_function


def transformer_layers(model: keras.Model) -> list[keras.layers.Layer]:
    return [x for x in model.layers if isinstance(x, keras_hub.layers.TransformerEncoder)]


def test_weights_that_are_dropped_are_scaled():
    """The mean over many draws is the output without dropout, and only training drops."""
    layer, inputs = make_layer(dropout=0.25), hidden_states()
    fuse_layer(layer)
    attention = layer._self_attention_layer
    expected = np.asarray(attention(inputs, inputs, training=False))
    draw = tf.function(lambda: attention(inputs, inputs, training=True))
    draws = np.stack([draw() for _ in range(400)])
    deviation = draws.std(axis=0) / np.sqrt(len(draws))
    assert deviation.min() > 0
    assert np.mean(np.abs(draws.mean(axis=0) - expected) < 3 * deviation) > 0.98


def test_bfloat16_is_near_float32():
    exact = make_layer()
    rounded = make_layer(dtype="mixed_bfloat16")
    for layer in (exact, rounded):
        fuse_layer(layer)
    inputs = hidden_states()
    outputs = rounded(inputs, padding_mask=PADDING)
    assert outputs.dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(outputs, "float32"), exact(inputs, padding_mask=PADDING), atol=0.1
    )


def plain_normalization(inputs, layer):
    """Return what the definition says; `tf.nn.moments` has wrong second derivatives."""
    centered = inputs - tf.reduce_mean(inputs, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered / tf.sqrt(variance + layer.epsilon) * layer.gamma + layer.beta


@pytest.mark.parametrize("part", ["normalization", "gelu", "tanh_gelu"])
def test_second_derivatives_are_those_of_the_definition(part):
    """A penalty on gradients is differentiated through them."""
    inputs = hidden_states()
    fused = LayerNormalization(epsilon=1e-5)
    fused.build(inputs.shape)
    fused.gamma.assign(np.linspace(0.5, 2, WIDTH))
    pairs = {
        "normalization": (fused, lambda x: plain_normalization(x, fused)),
        "gelu": (exact_gelu_function, lambda x: x * 0.5 * tf.math.erfc(-x / np.sqrt(2))),
        "tanh_gelu": (tanh_gelu_function, lambda x: tf.nn.gelu(x, approximate=True)),
    }

    def penalty_gradient(function):
        @tf.function
        def compute(inputs):
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    loss = tf.reduce_sum(tf.square(function(inputs)) * tf.sin(inputs))
                penalty = tf.reduce_sum(tf.square(inner.gradient(loss, inputs)))
            return outer.gradient(penalty, inputs)

        return compute(inputs)

    found, expected = (penalty_gradient(function) for function in pairs[part])
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_exact_gelu_is_the_error_function():
    values = np.linspace(-5, 5, 101).astype("float32")
    expected = values * 0.5 * (1 + erf(values / np.sqrt(2)))
    np.testing.assert_allclose(exact_gelu_function(values), expected, atol=1e-6)


def test_tanh_gelu_is_that_of_keras_hub():
    values = tf.constant(np.linspace(-5, 5, 101), "float32")
    expected = tf.nn.gelu(values, approximate=True)
    np.testing.assert_allclose(tanh_gelu_function(values), expected, atol=1e-6)
    assert np.abs(expected - exact_gelu_function(values)).max() > 1e-4
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        pair = [tanh_gelu_function(values), tf.nn.gelu(values, approximate=True)]
    found, wanted = (tape.gradient(outputs, values) for outputs in pair)
    np.testing.assert_allclose(found, wanted, atol=5e-6)


# ------------------------------------------------------------------------ dropout


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
