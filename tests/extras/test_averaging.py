"""Averages of weights, along the training and of the best: a small model."""

import numpy as np
import pytest
from small_models import EPOCHS, STEPS, Examples, assert_equal, make_models, make_settings, train

from core.base.files import read_json
from extras.averaging.averaging import Soup, averaged_weights, warn_of_long_average

pytestmark = pytest.mark.trains


def test_dev_is_scored_with_the_averaged_weights_and_these_are_kept(tmp_path):
    settings = make_settings(averaging={"ema": 0.8})
    run, training, inference, seen, steps, _ = train(settings, tmp_path, [0.1, 0.9, 0.5])
    # Keras begins the average with the weights after the first step.
    averages = [steps[1]]
    for weights in steps[2:]:
        pairs = zip(averages[-1], weights, strict=True)
        averages.append([0.8 * old + 0.2 * new for old, new in pairs])
    assert len(seen) == EPOCHS
    for epoch, found in enumerate(seen, 1):
        for one, other in zip(found, averages[epoch * STEPS - 1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert max(np.abs(a - w).max() for a, w in zip(seen[-1], steps[-1], strict=True)) > 1e-3
    assert_equal(training.get_weights(), steps[-1])
    inference.load_weights(run.folder / "best.weights.h5")
    assert_equal(inference.get_weights(), seen[1])


def test_without_averages_dev_is_scored_with_the_weights(tmp_path):
    *_, seen, steps, _ = train(make_settings(), tmp_path, [0.1, 0.9, 0.5])
    assert_equal(seen[-1], steps[-1])


@pytest.mark.parametrize("soup_score", [0.95, 0.8])
def test_soup_is_the_mean_of_the_best_and_kept_if_it_is_better(soup_score, tmp_path):
    settings = make_settings(averaging={"soup": 2})
    result = train(settings, tmp_path, [0.5, 0.1, 0.9, soup_score])
    run, _, inference, seen, _, evaluator = result
    assert sorted(path.name for path in (run.folder / "soup").glob("*.h5")) == [
        "00000003.weights.h5",
        "00000009.weights.h5",
    ]
    evaluator.finish()
    mean = [(one + other) / 2 for one, other in zip(seen[0], seen[2], strict=True)]
    for one, other in zip(seen[3], mean, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)
    inference.load_weights(run.folder / "best.weights.h5")
    kept, scores = soup_score > 0.9, read_json(run.folder / "scores.json")
    assert_equal(inference.get_weights(), seen[3 if kept else 2])
    assert scores["dev"]["f1"] == max(0.9, soup_score)
    assert scores.get("averaged_steps") == ([3, 9] if kept else None)


def test_a_soup_is_resumed(tmp_path):
    for place, scores in (("whole", [0.5, 0.7, 0.2]), ("parts", None)):
        settings = make_settings(averaging={"soup": 2})
        if scores:
            train(settings, tmp_path / place, scores)
        else:
            train(settings, tmp_path / place, [0.5, 0.6], interrupted=4)
            train(settings, tmp_path / place, [0.7, 0.2])
    soups = [Soup(tmp_path / place / "soup", 2) for place in ("whole", "parts")]
    assert soups[0].scores == soups[1].scores and len(soups[0].scores) == 2
    averages = []
    for soup in soups:
        _, inference = make_models(make_settings())
        soup.average(inference)
        averages.append(inference.get_weights())
    assert_equal(*averages)


def test_weights_return_when_scoring_fails():
    training, _ = make_models(make_settings(averaging={"ema": 0.5}))
    training.fit(Examples().to_dataset(), steps_per_epoch=2, verbose=0)
    before = training.get_weights()
    with pytest.raises(KeyboardInterrupt), averaged_weights(training):
        assert np.abs(training.get_weights()[0] - before[0]).max() > 0
        raise KeyboardInterrupt
    assert_equal(training.get_weights(), before)


def test_a_long_average_is_said(capsys):
    warn_of_long_average(0.0, 10)
    warn_of_long_average(0.99, 1000)
    assert not capsys.readouterr().out
    warn_of_long_average(0.999, 1000)
    said = capsys.readouterr().out
    assert "the last 1000 steps" in said and "set ema to 0.99 at the most" in said
    warn_of_long_average(0.99, 3)
    assert "set ema to 0.00 at the most, or to 0" in capsys.readouterr().out
