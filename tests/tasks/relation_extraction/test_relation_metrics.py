"""Strict triple scores and the search for a threshold, against scikit-learn and brute force."""

import numpy as np
import pytest
from conftest import use_template
from sklearn.metrics import precision_recall_fscore_support

use_template("relation_extraction")

from task.data import Example, Triple  # noqa: E402
from task.metrics import count_matches, score, tune_threshold  # noqa: E402

PREDICATES = ("born_in", "出生于", "works_for")


def example(identity, triples, annotated=None):
    annotated = None if annotated is None else frozenset(annotated)
    return Example(identity, "text", tuple(triples), annotated, 1)


def triple(subject, predicate="born_in", object_=9):
    return Triple((subject, subject + 1), predicate, (object_, object_ + 1))


def draw(random, most):
    chosen = (
        triple(int(random.integers(4)), str(random.choice(PREDICATES)), int(random.integers(3)))
        for _ in range(random.integers(most + 1))
    )
    return list(dict.fromkeys(chosen))


def draw_records(seed, records=60):
    random = np.random.default_rng(seed)
    golds, predictions = [], {}
    for number in range(records):
        annotated = list(PREDICATES[:2]) if random.random() < 0.3 else None
        right = [t for t in draw(random, 4) if annotated is None or t.predicate in annotated]
        golds.append(example(f"r{number}", right, annotated))
        kept = [t for t in right if random.random() < 0.7]
        predictions[f"r{number}"] = list(dict.fromkeys(kept + draw(random, 2)))
    return golds, predictions


def test_agrees_with_scikit_learn():
    golds, predictions = draw_records(1)
    truth, found, names = [], [], []
    for gold in golds:
        for item in set(gold.triples) | set(predictions[gold.id]):
            if gold.annotated_predicates is None or item.predicate in gold.annotated_predicates:
                truth.append(item in gold.triples)
                found.append(item in predictions[gold.id])
                names.append(item.predicate)
    result = score(golds, predictions)
    expected = precision_recall_fscore_support(truth, found, average="binary")[:3]
    assert [result[k] for k in ("precision", "recall", "f1")] == pytest.approx(expected)
    assert (result["gold"], result["predicted"]) == (sum(truth), sum(found))
    for name in PREDICATES:
        rows = [index for index, other in enumerate(names) if other == name]
        expected = precision_recall_fscore_support(
            np.array(truth)[rows], np.array(found)[rows], average="binary"
        )[:3]
        row = result["per_predicate"][name]
        assert [row[k] for k in ("precision", "recall", "f1")] == pytest.approx(expected)


def test_every_part_must_be_exact():
    gold = example("a", [triple(0)])
    near = [
        Triple((0, 2), "born_in", (9, 10)),
        Triple((0, 1), "works_for", (9, 10)),
        Triple((0, 1), "born_in", (9, 11)),
        Triple((9, 10), "born_in", (0, 1)),
    ]
    assert count_matches(gold, near) == {"born_in": (0, 3, 1), "works_for": (0, 1, 0)}


def test_repeated_predictions_count_once():
    gold = example("a", [triple(0), triple(1)])
    assert count_matches(gold, [triple(0)] * 3) == {"born_in": (1, 1, 2)}


def test_what_is_not_annotated_is_not_judged():
    gold = example("a", [triple(0)], annotated=["born_in"])
    predicted = [triple(0), triple(1, "works_for")]
    assert count_matches(gold, predicted) == {"born_in": (1, 1, 1)}
    assert score([gold], {"a": predicted})["f1"] == 1


def test_an_empty_prediction_scores_nothing():
    result = score([example("a", [triple(0)])], {})
    assert (result["precision"], result["recall"], result["f1"]) == (0, 0, 0)
    nothing = score([example("a", [])], {"a": []})
    assert (nothing["f1"], nothing["per_predicate"]) == (0, {})


def f1_above(golds, candidates, threshold):
    kept = {name: [t for t, s in scored if s > threshold] for name, scored in candidates.items()}
    return score(golds, kept)["f1"]


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_the_best_of_all(seed):
    golds, predictions = draw_records(seed, records=25)
    random = np.random.default_rng(seed)
    digits = 1 if seed % 2 else 6  # one digit makes many ties
    candidates = {
        name: [(t, float(np.round(random.random(), digits))) for t in triples for _ in range(2)]
        for name, triples in predictions.items()
    }
    found = f1_above(golds, candidates, tune_threshold(golds, candidates))
    scores = {s for scored in candidates.values() for _, s in scored} | {0.0, 0.5}
    assert found == max(f1_above(golds, candidates, s) for s in (*scores, -1.0))


def test_threshold_lies_in_the_middle_of_the_gap():
    golds = [example("a", [triple(0), triple(1)])]
    candidates = {"a": [(triple(0), 0.9), (triple(1), 0.3), (triple(2), 0.1)]}
    assert tune_threshold(golds, candidates) == pytest.approx(0.2)


def test_equal_scores_move_together():
    golds = [example("a", [triple(0)]), example("b", [])]
    candidates = {
        "a": [(triple(0), 0.4), (triple(1), 0.2)],
        "b": [(triple(2), 0.4), (triple(3), 0.2)],
    }
    # 0.4 brings a right and a wrong one: no threshold parts them.
    assert tune_threshold(golds, candidates) == pytest.approx(0.3)


@pytest.mark.parametrize("candidates", [{}, {"a": []}, {"a": [(triple(5), 0.4)]}])
def test_threshold_stays_where_nothing_improves(candidates):
    assert tune_threshold([example("a", [triple(0)])], candidates) == 0.5
    assert tune_threshold([example("a", [])], candidates) == 0.5


def test_threshold_between_neighbouring_floats():
    high, low = np.nextafter(0.3, 1), 0.3
    golds = [example("a", [triple(0)])]
    candidates = {"a": [(triple(0), float(high)), (triple(1), low)]}
    assert f1_above(golds, candidates, tune_threshold(golds, candidates)) == 1
