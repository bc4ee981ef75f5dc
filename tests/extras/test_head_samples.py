"""Dropout samples of the head against the same head, called by hand under the same masks."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from small_models import bert_encoder, make_settings

use_template("named_entity_recognition")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.exact.dropout import Dropout, Masks, place_dropout  # noqa: E402
from core.step import Models, inputs_of, with_row_numbers  # noqa: E402
from extras.regularization.head_samples import HeadSamples, sample_head  # noqa: E402
from extras.regularization.regularization import Regularization  # noqa: E402
from extras.regularization.regularized_gradients import RegularizedGradients  # noqa: E402
from task.model import build_models  # noqa: E402
from task.settings import Settings  # noqa: E402

BATCH, LENGTH, TYPES, RATE, SEED, COUNT = 4, 6, 2, 0.3, 7, 3


def make_models(tagger: str = "pointer") -> Models:
    keras.utils.set_random_seed(2)
    settings = with_tables(Settings)(tagger=tagger, pointer_size=8)
    encoder = bert_encoder(dropout=0.0)
    models = build_models(encoder, TYPES, settings)
    place_dropout(models.training, SEED)
    random = np.random.default_rng(3)
    for weight in models.training.weights:
        if weight.dtype == "float32":
            weight.assign(weight + 0.2 * random.normal(size=weight.shape))
    return models


def make_batch(tagger: str = "pointer") -> dict[str, tf.Tensor]:
    random = np.random.default_rng(4)
    mask = np.arange(LENGTH) < np.array([6, 6, 4, 5])[:, None]
    labels = np.full((BATCH, TYPES, 2, 2), -1)
    labels[0, 0, 0], labels[1, 1, :2] = (1, 2), [(0, 0), (2, 4)]
    tags = random.integers(0, 2, (BATCH, LENGTH)) * mask
    own = {"tags": tags} if tagger == "crf" else {"span_labels": labels}
    arrays = {
        "token_ids": random.integers(1, 20, (BATCH, LENGTH)) * mask,
        "padding_mask": mask,
        "segment_ids": np.zeros((BATCH, LENGTH)),
        **own,
    }
    batch = {name: tf.constant(array, "int32") for name, array in arrays.items()}
    return {**batch, "loss_weight": tf.constant([0.4, 0.3, 0.3, 0.0])}


def losses_by_hand(models: Models, batch: dict) -> list[np.ndarray]:
    """Return the loss of each mask, from the encoder and the layers of the head."""
    hidden = models.encoder({t.name: batch[t.name] for t in models.encoder.inputs})
    dropout = Dropout(RATE)
    dropout.stream = f"{SEED}/head"
    names = ("span_pointer", "span_scores", "span_loss")
    pointer, score, loss = (models.training.get_layer(name) for name in names)
    found = []
    with Masks(tf.constant(0), tf.range(BATCH)).drawn():
        for _ in range(COUNT):
            dropped = dropout(hidden["sequence_output"], training=True)
            scores = score(pointer(dropped), batch["padding_mask"])
            found.append(loss(scores, batch["span_labels"]))
    return [one.numpy() for one in found]


def test_the_loss_is_the_mean_under_several_masks():
    models, batch = make_models(), make_batch()
    plain = models.training(inputs_of(batch), training=True)["span_loss"].numpy()
    each = losses_by_hand(models, batch)
    assert min(np.abs(one - plain).max() for one in each) > 1e-2
    assert np.abs(each[0] - each[1]).max() > 1e-2
    weights = models.training.get_weights()
    sample_head(models, COUNT, RATE, SEED)
    with Masks(tf.constant(0), tf.range(BATCH)).drawn():
        found = models.training(inputs_of(batch), training=True)["span_loss"]
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-5)
    # Without training there is no dropout, and no weight is another.
    np.testing.assert_allclose(models.training(inputs_of(batch))["span_loss"], plain, rtol=1e-6)
    assert len(models.training.get_weights()) == len(weights)


def gradients(tagger: str, accumulation: int = 1, xla: bool = False, **parts) -> list[np.ndarray]:
    models = make_models(tagger)
    sample_head(models, COUNT, RATE, SEED)
    regularization = Regularization(**parts, scores=models.compared)

    def regularized(model):
        return RegularizedGradients(model, regularization)

    make = regularized if parts else None
    models.training.compile(keras.optimizers.SGD(), accumulation, xla=xla, make_gradients=make)
    found, _ = models.training.batch_gradients(with_row_numbers(make_batch(tagger)))
    return [tf.convert_to_tensor(gradient).numpy() for gradient in found]


def assert_close(one, other) -> None:
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=2e-6)


@pytest.mark.shown("crf")
@pytest.mark.trains
@pytest.mark.parametrize("tagger", ["pointer", "crf"])
def test_micro_batches_and_xla_have_the_same_gradient(tagger):
    whole = gradients(tagger)
    assert max(np.abs(one).max() for one in whole) > 1e-2
    assert_close(gradients(tagger, accumulation=2), whole)
    if tagger == "pointer":  # XLA compiles no scan, which a CRF is, over a length it does not know
        assert_close(gradients(tagger, xla=True), whole)


@pytest.mark.further
@pytest.mark.trains
def test_two_passes_are_compared_under_their_first_masks():
    """R-Drop sees masks of the head: without dropout in the encoder nothing else differs."""
    plain, other = gradients("pointer"), gradients("pointer", r_drop=1.0)
    assert max(np.abs(a - b).max() for a, b in zip(plain, other, strict=True)) > 1e-3
    assert_close(gradients("pointer", accumulation=2, r_drop=1.0), other)


def test_models_of_other_shapes_are_refused():
    models = make_models()
    other = SimpleNamespace(training=models.training, encoder=None, compared=())
    with pytest.raises(InputError, match="head reads the hidden states of one pass"):
        HeadSamples(other, COUNT, RATE, SEED)


def test_samples_need_dropout():
    table = {"dropout_samples": 2}
    assert make_settings(regularization=table).regularization.dropout_samples == 2
    with pytest.raises(ValueError, match="dropout = 0 makes all dropout samples alike"):
        make_settings(regularization=table, dropout=0.0)
