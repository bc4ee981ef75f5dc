"""Focal losses of labels against plain NumPy, and what they don't go together with."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import use_template
from scipy import special

use_template("text_classification")

from core.base.settings import with_tables  # noqa: E402
from extras.regularization.losses import change_losses  # noqa: E402
from extras.regularization.settings import Table  # noqa: E402
from task import model  # noqa: E402
from task.settings import Settings  # noqa: E402

SOFT = np.array([[0.7, 0.2, 0.1], [0, 1, 0], [0.5, 0.5, 0]], "float32")
GAMMAS = (0.5, 1.0, 2.0)


def focal(layer, gamma: float):
    own = SimpleNamespace(_flatten_layers=lambda **_: iter([layer]))
    change_losses(SimpleNamespace(training=own), Table(focal_gamma=gamma))
    return layer


def logits_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (3, 3)).astype("float32")


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("targets", [np.eye(3, dtype="float32"), SOFT], ids=["hard", "soft"])
def test_focal_softmax_loss(gamma, smoothing, targets):
    """Each label adds its share of (1 - p)^gamma (-log p); weights of labels multiply it."""
    logits, weights = logits_of(1), [0.5, 2.0, 1.0]
    found = focal(model.SoftmaxLoss(weights, smoothing), gamma)(logits, targets).numpy()
    p = special.softmax(logits.astype(float), axis=-1)
    shares = targets * (1 - smoothing) + smoothing / 3
    expected = (shares * (1 - p) ** gamma * -np.log(p)).sum(-1) * (targets @ weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.abs(model.SoftmaxLoss(weights, smoothing)(logits, targets) - found).max() > 0.01


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("targets", [np.eye(3, dtype="float32"), SOFT], ids=["hard", "soft"])
def test_focal_sigmoid_loss(gamma, smoothing, targets):
    logits, weights = logits_of(2), np.array([[0.5, 2], [1, 1], [3, 4]])
    layer = focal(model.SigmoidLoss(weights.tolist(), smoothing), gamma)
    found = layer(logits, targets).numpy()
    p, shares = special.expit(logits.astype(float)), targets * (1 - smoothing) + smoothing / 2
    each = shares * (1 - p) ** gamma * -np.log(p) + (1 - shares) * p**gamma * -np.log1p(-p)
    expected = (each * (targets * weights[:, 1] + (1 - targets) * weights[:, 0])).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_two_labels_have_the_focal_loss_of_one_sigmoid():
    """Of the difference of their logits: both losses are one, also for soft targets."""
    random = np.random.default_rng(3)
    logits, share = random.normal(0, 2, (4, 2)).astype("float32"), random.random((4, 1))
    both = np.concatenate([share, 1 - share], axis=1).astype("float32")
    softmax = focal(model.SoftmaxLoss(), 2.0)(logits, both)
    sigmoid = focal(model.SigmoidLoss(), 2.0)(logits[:, :1] - logits[:, 1:], both[:, :1])
    np.testing.assert_allclose(softmax, sigmoid, rtol=1e-4)


def test_sure_answers_have_a_finite_loss_and_slope():
    import tensorflow as tf

    logits = tf.constant([[200.0, -200.0], [-200.0, 200.0]])
    for kind in (model.SoftmaxLoss, model.SigmoidLoss):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = focal(kind(), 0.5)(logits, np.array([[1.0, 0.0]] * 2, "float32"))
        assert loss[0] < 1e-3 and loss[1] >= 200
        assert np.isfinite(tape.gradient(loss, logits)).all()


def test_what_does_not_go_together_is_refused():
    for changes, message in (
        ({"output": "number", "regularization": {"focal_gamma": 2}}, "focal_gamma is for labels"),
        ({"regularization": {"span_smoothing": 0.1}}, "set label_smoothing"),
    ):
        with pytest.raises(ValueError, match=message):
            with_tables(Settings)(**changes)
