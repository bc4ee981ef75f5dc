"""Transformer layers, fused: the numbers and gradients of KerasHub's own; that they are in use."""

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import erf

from core.encoders.encoder import BertEncoder
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
