"""Focal losses and smoothed labels against plain NumPy that shares no code with them."""

import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from small_models import make_settings

from core.base.errors import InputError
from core.layers.crf import CrfLoss, TagTransitions, legal_transitions
from core.layers.language_model import TokenLoss
from core.layers.pointers import SparseMultilabelLoss
from extras.regularization.changed_loss import focal
from extras.regularization.losses import change_losses
from extras.regularization.settings import Table

HEADS, LENGTH = 2, 6
IMPOSSIBLE = -1e9
GAMMAS = (0.0, 0.5, 1.0, 2.0)


def changed(layer: keras.layers.Layer, **table) -> keras.layers.Layer:
    """Return a loss layer as the extra leaves it."""
    own = SimpleNamespace(_flatten_layers=lambda **_: iter([layer]))
    change_losses(SimpleNamespace(training=own), Table(**table))
    return layer


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_loss_is_that_of_the_paper_and_has_its_slope(gamma):
    """Also where nothing is left to learn, and where everything is wrong."""
    p = np.array([1.0, 0.999, 0.7, 0.5, 0.01, 1e-30])
    costs = tf.constant(-np.log(p), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(costs)
        found = focal(costs, gamma)
    np.testing.assert_allclose(found, -((1 - p) ** gamma) * np.log(p), rtol=2e-4, atol=1e-6)
    slopes = tape.gradient(found, costs).numpy()
    assert np.isfinite(slopes).all()
    step, inner = 1e-6, -np.log(p[1:])

    def exact(cost):
        return (-np.expm1(-cost)) ** gamma * cost

    expected = (exact(inner + step) - exact(inner - step)) / (2 * step)
    np.testing.assert_allclose(slopes[1:], expected, rtol=1e-3)


# ---------------------------------------------------------------------- pointers


def pointer_case(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of spans with a padded token, labels and the true pairs of each head."""
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, (2, HEADS, LENGTH, LENGTH)).astype("float32")
    i, j = np.indices((LENGTH, LENGTH))
    scores[:, :, i > j] = IMPOSSIBLE
    scores[1, :, (i == LENGTH - 1) | (j == LENGTH - 1)] = IMPOSSIBLE  # padding
    labels = np.full((2, HEADS, 3, 2), -1, "int32")
    labels[0, 0, :2] = (0, 1), (2, 2)
    labels[0, 1, 0] = (1, 5)
    labels[1, 0, :3] = (1, 2), (1, 3), (4, 4)
    return scores, labels, scores > IMPOSSIBLE / 2


def soft_targets(labels, possible, share: float, distance: int) -> np.ndarray:
    """Return the targets cell by cell, as the paper describes them."""
    targets = np.zeros(possible.shape)
    for example, head, slot in np.ndindex(*labels.shape[:3]):
        i, j = labels[example, head, slot]
        if i < 0:
            continue
        targets[example, head, i, j] += 1 - share
        for a, b in itertools.product(range(-distance, distance + 1), repeat=2):
            steps = abs(a) + abs(b)
            if not 0 < steps <= distance:
                continue
            part = share / distance / (4 * steps)
            place = i + a, j + b
            inside = all(0 <= x < LENGTH for x in place)
            if not inside or not possible[example, head, *place]:
                place = i, j  # stays where it was
            targets[example, head, *place] += part
    return np.minimum(targets, 1)


def pointer_loss(scores, targets, possible, gamma: float) -> np.ndarray:
    """Return the loss of each example in float64, head by head."""
    total = np.zeros(len(scores))
    for example, head in np.ndindex(*scores.shape[:2]):
        s = scores[example, head][possible[example, head]].astype(float)
        t = targets[example, head][possible[example, head]]
        for term in (np.sum((1 - t) * np.exp(s)), np.sum(t * np.exp(-s))):
            p = 1 / (1 + term)
            total[example] -= (1 - p) ** gamma * np.log(p)
    return total


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize(("share", "distance"), [(0.0, 1), (0.1, 1), (0.2, 2), (0.4, 4)])
def test_loss_of_pointers_is_its_closed_form(gamma, share, distance):
    scores, labels, possible = pointer_case()
    table = {"focal_gamma": gamma, "span_smoothing": share, "smoothing_distance": distance}
    found = changed(SparseMultilabelLoss(), **table)(scores, labels).numpy()
    targets = soft_targets(labels, possible, share, distance)
    np.testing.assert_allclose(found, pointer_loss(scores, targets, possible, gamma), rtol=1e-5)
    # Nothing of a label is lost, unless a pair would get more than the whole of one.
    if distance == 1 and share < 0.3:
        assert targets.sum() == pytest.approx((labels[..., 0] >= 0).sum())


def test_a_pointer_without_gamma_and_smoothing_has_the_loss_it_had():
    """With scores far from 0 and a head that was not annotated."""
    random = np.random.default_rng(5)
    scores, labels, _ = pointer_case()
    scores[0] = np.where(scores[0] > IMPOSSIBLE / 2, 40 * random.normal(size=scores[0].shape), -1e9)
    weight = np.array([[1, 0], [1, 1]], "float32")
    plain = SparseMultilabelLoss()(scores, labels, weight).numpy()
    nearly = changed(SparseMultilabelLoss(), focal_gamma=1e-9)(scores, labels, weight).numpy()
    np.testing.assert_allclose(nearly, plain, rtol=1e-5)
    assert changed(SparseMultilabelLoss()).__class__ is SparseMultilabelLoss


def test_one_pair_has_the_binary_focal_loss():
    """Of one cell the pointer's loss is that of a sigmoid."""
    for score, true in itertools.product((-3.0, 0.2, 4.0), (True, False)):
        labels = np.array([[[[0, 0] if true else [-1, -1]]]])
        layer = changed(SparseMultilabelLoss(), focal_gamma=2.0)
        found = float(layer(np.full((1, 1, 1, 1), score, "float32"), labels)[0])
        p = special.expit(score if true else -score)
        assert found == pytest.approx(-((1 - p) ** 2) * np.log(p), rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_slopes_of_the_pointers_loss_agree_with_finite_differences(share):
    scores, labels, possible = pointer_case(4)
    layer = changed(SparseMultilabelLoss(), focal_gamma=2.0, span_smoothing=share)
    given = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(given)
        total = tf.reduce_sum(layer(given, labels))
    slopes, step = tape.gradient(total, given).numpy(), 1e-5
    targets = soft_targets(labels, possible, share, 1)
    for place in zip(*np.nonzero(possible), strict=True):
        ends = []
        for sign in (1, -1):
            moved = scores.astype(float)
            moved[place] += sign * step
            ends.append(pointer_loss(moved, targets, possible, 2.0).sum())
        assert slopes[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-5)
    assert not slopes[~possible].any()


# -------------------------------------------------------------------------- tags


def tag_case() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(6)
    labels, tags = 2, 5
    emissions = random.normal(0, 2, (3, 4, tags)).astype("float32")
    layer = TagTransitions(labels)
    layer(emissions)
    layer.transitions.assign(random.normal(size=(tags + 1, tags)))
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]])
    gold = np.array([[0, 1, 2, 0], [3, 4, 1, 0], [1, 0, 0, 0]])
    return emissions, layer(emissions).numpy(), gold, mask


def legal_scores(emissions, transitions, mask) -> dict[tuple, float]:
    """Return the score of every sequence that BIO permits, of one text."""
    legal, count = legal_transitions(2), int(mask.sum())
    found = {}
    for tags in itertools.product(range(5), repeat=count):
        steps = list(zip((5, *tags), tags, strict=False))
        if all(legal[step] for step in steps):
            parts = [emissions[place, tag] for place, tag in enumerate(tags)]
            found[tags] = float(sum(parts)) + float(sum(transitions[step] for step in steps))
    return found


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_loss_of_tags_is_a_sum_over_all_sequences(gamma, share):
    emissions, transitions, gold, mask = tag_case()
    layer = changed(CrfLoss(), focal_gamma=gamma, span_smoothing=share)
    found = layer(emissions, transitions, gold, mask).numpy()
    for row, own in enumerate(found):
        scores = legal_scores(emissions[row], transitions[row], mask[row])
        total = special.logsumexp(list(scores.values()))
        costs = {tags: total - score for tags, score in scores.items()}
        cost = costs[tuple(gold[row, : mask[row].sum()])]
        expected = (1 - share) * (1 - np.exp(-cost)) ** gamma * cost
        expected += share * np.mean(list(costs.values()))
        assert own == pytest.approx(expected, rel=1e-4)


def test_slopes_of_smoothed_tags_agree_with_finite_differences():
    emissions, transitions, gold, mask = tag_case()
    layer = changed(CrfLoss(), focal_gamma=1.0, span_smoothing=0.2)
    emissions = tf.constant(emissions)

    def loss(given):
        return tf.reduce_sum(layer(given, transitions, gold, mask))

    with tf.GradientTape() as tape:
        tape.watch(emissions)
        total = loss(emissions)
    slopes = tape.gradient(total, emissions).numpy()
    direction = np.random.default_rng(7).normal(size=slopes.shape).astype("float32")
    ends = [float(loss(emissions + sign * 1e-2 * direction)) for sign in (1, -1)]
    assert (slopes * direction).sum() == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=1e-3)
    assert not slopes[mask == 0].any()


# ---------------------------------------------------------------------- settings


def test_losses_that_have_no_such_form_are_named():
    with pytest.raises(InputError, match="focal_gamma does not fit this model: its loss is Token"):
        changed(TokenLoss(), focal_gamma=2.0)
    with pytest.raises(InputError, match=r"span_smoothing does not fit .* set span_smoothing = 0"):
        changed(TokenLoss(), span_smoothing=0.1)


def test_smoothing_of_a_half_or_more_is_refused():
    for table in ({"span_smoothing": 0.5}, {"focal_gamma": -1}, {"smoothing_distance": 0}):
        with pytest.raises(ValueError, match=next(iter(table))):
            make_settings(regularization=table)
