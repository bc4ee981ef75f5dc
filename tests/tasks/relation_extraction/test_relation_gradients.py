"""Many heads learn what few heads learn: the same losses and gradients of the whole model."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from small_models import bert_encoder

use_template("relation_extraction")

from core.base.settings import with_tables  # noqa: E402
from core.exact.dropout import place_dropout  # noqa: E402
from core.fast import one_pass  # noqa: E402
from core.layers import many_heads  # noqa: E402
from core.step import with_row_numbers  # noqa: E402
from task.model import build_models  # noqa: E402
from task.settings import Settings  # noqa: E402

BATCH, LENGTH, PREDICATES, SEED = 4, 6, 3, 7


def make_batch() -> dict[str, tf.Tensor]:
    random = np.random.default_rng(4)
    mask = np.arange(LENGTH) < np.array([6, 6, 4, 5])[:, None]
    batch = {
        "token_ids": random.integers(1, 20, (BATCH, LENGTH)) * mask,
        "padding_mask": mask,
        "segment_ids": np.zeros((BATCH, LENGTH)),
    }
    for name, heads in (("entity", 2), ("head", PREDICATES), ("tail", PREDICATES)):
        labels = np.full((BATCH, heads, 2, 2), -1)
        labels[0, 0, 0], labels[1, 1, :2] = (1, 2), [(0, 0), (2, 4)]
        batch[f"{name}_labels"] = labels
    tensors = {name: tf.constant(array, "int32") for name, array in batch.items()}
    annotated = random.integers(0, 2, (BATCH, PREDICATES)).astype("float32")
    return {**tensors, "annotated": annotated, "loss_weight": tf.constant([0.4, 0.3, 0.3, 0.0])}


def gradients(accumulation: int = 1, xla: bool = False) -> list[np.ndarray]:
    """Return the gradient of each variable, and the loss of each example by pointer."""
    keras.utils.set_random_seed(2)
    settings = with_tables(Settings)(pointer_size=8)
    models = build_models(bert_encoder(dropout=0.1), PREDICATES, settings)
    place_dropout(models.training, SEED)
    models.training.compile(keras.optimizers.SGD(), accumulation, xla=xla)
    found, losses = models.training.batch_gradients(with_row_numbers(make_batch()))
    return [tf.convert_to_tensor(one).numpy() for one in [*found, *losses.values()]]


@pytest.mark.further
@pytest.mark.trains
def test_many_heads_have_the_gradient_of_few(monkeypatch):
    few = gradients()
    assert max(np.abs(one).max() for one in few) > 1e-2
    calls = []
    learn = many_heads.learn_pairs
    monkeypatch.setattr(many_heads, "learn_pairs", lambda *own: calls.append(1) or learn(*own))
    monkeypatch.setattr(one_pass, "MANY", 1)
    for options in ({}, {"accumulation": 2}, {"xla": True}):
        before = len(calls)
        many = gradients(**options)
        assert len(calls) > before
        for one, other in zip(many, few, strict=True):
            largest = np.abs(other).max()  # of an array, whose small entries are sums of large ones
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * largest + 1e-7)
