"""How a predictor runs its models, and what is kept of all that is found."""

import random
import tracemalloc
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from core.prediction import candidates
from core.prediction.candidates import BestCandidates
from core.prediction.predictor import Predictor


def finds(windows: int, each: int, records: int) -> list[tuple[int, dict[str, float]]]:
    """Return windows of records with what is found in them; some is found in several windows."""
    draws = random.Random(1)
    return [
        (
            window % records,
            {f"find {draws.randrange(3 * each)}": draws.random() for _ in range(each)},
        )
        for window in range(windows)
    ]


def generator_of(records: int, windows: int) -> SimpleNamespace:
    return SimpleNamespace(examples=[SimpleNamespace(id=n) for n in range(records)], size=windows)


def keep(windows: list[tuple[int, dict]], records: int, keep_all: bool = False) -> dict:
    best = BestCandidates(generator_of(records, len(windows)), keep_all)
    for record, scored in windows:
        best.add(record, scored)
    return best.kept()


def merge(windows: list[tuple[int, dict]], records: int) -> dict[int, dict]:
    """Return the highest score of each find, of all."""
    merged: dict[int, dict] = {record: {} for record in range(records)}
    for record, scored in windows:
        for key, score in scored.items():
            merged[record][key] = max(score, merged[record].get(key, 0))
    return merged


@pytest.fixture
def keep_of_each(monkeypatch):
    """Return what sets how many finds are kept of a window."""
    monkeypatch.setattr(candidates, "KEPT_AT_LEAST", 1)
    return lambda count: monkeypatch.setattr(candidates, "KEPT_PER_WINDOW", count)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_all_records_are_kept_in_whatever_order_they_come(seed, keep_of_each, capsys):
    windows, records = finds(90, 30, 20), 20
    keep_of_each(4)
    every = merge(windows, records)
    floor = sorted((s for own in every.values() for s in own.values()), reverse=True)[4 * 90 - 1]
    random.Random(seed).shuffle(windows)
    assert keep(windows, records) == {
        record: {key: score for key, score in own.items() if score >= floor}
        for record, own in every.items()
    }
    told = "note: too many candidates: only the 360 best-scoring ones count"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("most,keep_all", [(30, False), (4, True)])
def test_all_is_kept_where_it_is_not_too_much_or_a_threshold_is_known(
    most, keep_all, keep_of_each, capsys
):
    keep_of_each(most)
    windows = finds(90, 30, 20)
    assert keep(windows, 20, keep_all) == merge(windows, 20)
    assert capsys.readouterr().out == ""


def test_candidates_of_equal_scores_are_kept_together(keep_of_each):
    keep_of_each(2)
    windows = [(0, {number: 1.0 for number in range(first, first + 100)}) for first in range(50)]
    assert len(keep(windows, 1)[0]) == 149


def test_memory_does_not_grow_with_what_is_found(keep_of_each):
    keep_of_each(8)

    def peak(found_in_each: int) -> int:
        tracemalloc.start()
        best = BestCandidates(generator_of(100, 1000), keep_all=False)
        for number in range(1000):
            best.add(number % 100, {(number, i): random.random() for i in range(found_in_each)})
        best.kept()
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(400) < 1.3 * peak(40)


def test_one_graph_serves_batches_of_all_sizes():
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    model = keras.Model([tokens], {"last": keras.ops.max(tokens, axis=1)})
    traced = []

    def select(outputs):
        traced.append(outputs)
        return outputs[0]

    predictor = Predictor([model], tf.distribute.get_strategy(), select)
    for rows, length in ((4, 7), (4, 9), (2, 30)):
        batch = {"token_ids": np.arange(rows * length, dtype=np.int32).reshape(rows, length)}
        found = predictor.forward(batch)["last"].numpy()
        assert found.tolist() == [length * (row + 1) - 1 for row in range(rows)]
    assert len(traced) == 1
