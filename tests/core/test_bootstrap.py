"""The paired bootstrap against a loop written from its definition, and against known answers."""

import numpy as np
import pytest

from core.base.errors import InputError
from extras.comparison.comparison import paired_bootstrap


def draw_counts(random, records, quality):
    gold = random.integers(0, 4, records)
    correct = random.binomial(gold, quality)
    return np.stack([correct, correct + random.integers(0, 2, records), gold], axis=1)


def f1(counts):
    correct, predicted, gold = counts.sum(0)
    return 2 * correct / (predicted + gold) if predicted + gold else 0.0


def test_agrees_with_a_loop():
    random = np.random.default_rng(3)
    first, second = draw_counts(random, 120, 0.8), draw_counts(random, 120, 0.7)
    second[:, 2] = first[:, 2]
    found = paired_bootstrap(first, second, resamples=8000)
    differences = []
    for _ in range(8000):
        drawn = random.integers(0, len(first), len(first))
        differences.append(f1(first[drawn]) - f1(second[drawn]))
    assert found.first == pytest.approx(f1(first)) and found.second == pytest.approx(f1(second))
    assert found.difference == pytest.approx(f1(first) - f1(second))
    # 8000 draws leave about 0.002 of noise in each end.
    assert [found.low, found.high] == pytest.approx(
        np.percentile(differences, [2.5, 97.5]), abs=0.005
    )


def test_records_stay_paired():
    # Both miss the same records and one misses more: unpaired draws would see no clear difference.
    random = np.random.default_rng(4)
    hard = random.random(400) < 0.5
    first = np.stack([~hard, np.ones(400), np.ones(400)], axis=1).astype(int)
    second = first.copy()
    second[np.flatnonzero(~hard)[:10], 0] = 0
    found = paired_bootstrap(first, second)
    assert found.difference == pytest.approx(10 / 400)
    # The number of the ten that are drawn is binomial, of mean 10 and deviation 3.1.
    assert [found.low, found.high] == pytest.approx([4 / 400, 17 / 400], abs=1.01 / 400)
    assert found.verdict == "better"
    assert paired_bootstrap(second, first).verdict == "worse"


def test_a_system_against_itself():
    counts = draw_counts(np.random.default_rng(5), 50, 0.6)
    found = paired_bootstrap(counts, counts)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.verdict == "no clear difference"


def test_nothing_found_and_nothing_to_find():
    empty = np.zeros((5, 3), int)
    assert paired_bootstrap(empty, empty, resamples=100).first == 0


def test_same_interval_whatever_fits_into_memory(monkeypatch):
    random = np.random.default_rng(6)
    first, second = draw_counts(random, 30, 0.8), draw_counts(random, 30, 0.7)
    whole = paired_bootstrap(first, second, resamples=500)
    monkeypatch.setattr("extras.comparison.comparison.NUMBERS_AT_ONCE", 1)
    assert paired_bootstrap(first, second, resamples=500) == whole


def test_too_few_records():
    with pytest.raises(InputError, match="too few"):
        paired_bootstrap(np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError):
        paired_bootstrap(np.ones((4, 3)), np.ones((5, 3)))
