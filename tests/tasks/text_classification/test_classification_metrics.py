"""Scores of text classification against scikit-learn's and brute force."""

import itertools

import numpy as np
import pytest
from conftest import use_template
from sklearn import metrics as sklearn_metrics

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from extras.comparison.comparison import compare_columns  # noqa: E402
from inspection.errors import read_prediction  # noqa: E402
from inspection.score_parts import read_score, score_parts  # noqa: E402
from library import label_metrics  # noqa: E402
from task import metrics  # noqa: E402
from task.decode import choose_labels, make_candidates  # noqa: E402
from task.evaluation import evaluate, tune_threshold  # noqa: E402
from task.records import Example, Labels, collect_labels  # noqa: E402


def example(identity, labels, group=None, several=False, text="a"):
    return Example(str(identity), text, None, tuple(labels), several, group, 1)


def random_examples(random, names, count=60, several=False):
    examples, predictions = [], []
    for index in range(count):
        sizes = random.integers(0, 3, 2) if several else (1, 1)
        gold, found = (sorted(random.choice(names, size, replace=False).tolist()) for size in sizes)
        examples.append(example(index, gold, several=several))
        predictions.append(tuple(found))
    return examples, predictions


@pytest.mark.parametrize("seed", range(5))
def test_single_labels_score_as_scikit_learn_says(seed):
    random = np.random.default_rng(seed)
    names = ["a", "b", "c", "never seen"]
    examples, predictions = random_examples(random, names)
    labels = Labels(("a", "b", "c"), False, None, (1, 1, 1), 3, False)
    scores = metrics.score(examples, predictions, None, labels)
    gold, found = [e.labels[0] for e in examples], [p[0] for p in predictions]
    assert scores["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(gold, found))
    for average in ("macro", "micro"):
        expected = sklearn_metrics.f1_score(gold, found, average=average, zero_division=0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)
    assert scores["matthews"] == pytest.approx(sklearn_metrics.matthews_corrcoef(gold, found))


@pytest.mark.parametrize("seed", range(5))
def test_several_labels_score_as_scikit_learn_says(seed):
    random = np.random.default_rng(seed)
    names = ["a", "b", "c", "d"]
    examples, predictions = random_examples(random, names, several=True)
    scores = metrics.score(
        examples, predictions, None, Labels(tuple(names), True, None, (), 0, False)
    )
    gold, found = (
        np.array([[name in row for name in names] for row in rows])
        for rows in ([e.labels for e in examples], predictions)
    )
    assert scores["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(gold, found))
    for average in ("macro", "micro"):
        expected = sklearn_metrics.f1_score(gold, found, average=average, zero_division=0)
        assert scores[f"{average}_f1"] == pytest.approx(expected)
    assert "matthews" not in scores


def test_matthews_of_two_labels_is_the_closed_form():
    # 6 true and 3 false positives, 5 true and 1 false negatives.
    counts = np.array([[6, 9, 7], [5, 6, 8]])
    expected = (6 * 5 - 3 * 1) / np.sqrt((6 + 3) * (6 + 1) * (5 + 3) * (5 + 1))
    assert label_metrics.matthews(counts) == pytest.approx(expected)
    assert label_metrics.matthews(np.array([[4, 4, 4], [0, 0, 0]])) == 0


def brute_ranking(relevant, scores):
    """Average precision and reciprocal rank of the worst order that the scores allow."""
    results = []
    for order in itertools.permutations(range(len(scores))):
        if any(scores[a] < scores[b] for a, b in itertools.pairwise(order)):
            continue
        found, precisions = 0, []
        for rank, position in enumerate(order, 1):
            found += relevant[position]
            precisions += [found / rank] * relevant[position]
        first = min(order.index(p) for p in range(len(scores)) if relevant[p]) + 1
        results.append((sum(precisions) / found, 1 / first))
    return min(results)


@pytest.mark.parametrize("seed", range(20))
def test_rankings_are_those_of_brute_force(seed):
    random = np.random.default_rng(seed)
    relevant = random.random(6) < 0.4
    relevant[0] = True
    scores = random.integers(0, 4, 6) / 4  # many ties
    found = label_metrics.score_ranking(relevant, scores)
    assert found == pytest.approx(brute_ranking(relevant.astype(int).tolist(), scores.tolist()))


def test_average_precision_is_scikit_learns_where_no_scores_are_equal():
    random = np.random.default_rng(3)
    examples, scores, expected = [], [], []
    for group in range(30):
        labels = (random.random(8) < 0.3).astype(int)
        values = random.permutation(8) / 8
        examples += [example(f"{group}-{n}", [str(y)], f"q{group}") for n, y in enumerate(labels)]
        scores += values.tolist()
        if labels.any():
            expected.append(sklearn_metrics.average_precision_score(labels, values))
    rankings = label_metrics.score_rankings(examples, np.array(scores), "1")
    assert len(rankings) == len(expected) < 30
    assert np.mean([row[0] for row in rankings.values()]) == pytest.approx(np.mean(expected))


def test_equal_scores_earn_nothing_by_the_order_of_the_file():
    assert label_metrics.score_ranking(np.array([True, False, False]), np.zeros(3)) == (
        1 / 3,
        1 / 3,
    )


def ranked(labels_of_groups):
    return [
        example(f"{group}-{number}", [label], group)
        for group, labels in labels_of_groups.items()
        for number, label in enumerate(labels)
    ]


def test_a_ranking_is_scored_by_group_and_by_a_tuned_threshold():
    examples = ranked({"x": "010", "y": "00", "z": "11"})
    labels = collect_labels(examples)
    assert (labels.positive, labels.has_threshold) == ("1", True)
    positive = np.array([0.1, 0.3, 0.4, 0.9, 0.8, 0.35, 0.32])
    candidates = make_candidates(examples, np.column_stack([1 - positive, positive]), labels)
    scores = evaluate(examples, candidates, labels, PROJECT / "train.py").scores
    assert scores["ranked_groups"] == 2
    assert scores["map"] == pytest.approx((1 / 2 + 1) / 2) == scores["mrr"]
    # At 0.1 < threshold < 0.3 three of the six are right: F1 = 6 / 9; at 0.5 none is.
    assert 0.1 < scores["threshold"] < 0.3
    assert scores["f1"] == pytest.approx(6 / 9)


@pytest.mark.parametrize("seed", range(10))
def test_no_threshold_is_better_than_the_tuned_one(seed):
    random = np.random.default_rng(seed)
    names = ("a", "b", "c")
    examples, _ = random_examples(random, [*names, "unknown"], 20, several=True)
    labels = Labels(names, True, None, (1, 1, 1), 3, False)
    candidates = make_candidates(examples, random.integers(0, 30, (20, 3)) / 30, labels)

    def f1(threshold):
        found = [choose_labels(candidates[e.id], labels, threshold) for e in examples]
        return metrics.score(examples, found, None, labels)["micro_f1"]

    best = tune_threshold(examples, candidates, labels)
    assert f1(best) == max(f1(threshold) for threshold in np.linspace(0, 1, 400))


def test_auto_chooses_the_score_of_the_data():
    single = [example(0, ["a"]), example(1, ["b"])]
    several = [example(0, ["a"], several=True), example(1, [], several=True)]
    groups = ranked({"x": "01"})
    rows = [(single, "", "accuracy"), (single, "a", "f1"), (several, "", "micro_f1")]
    for examples, positive, metric in [*rows, (groups, "", "map")]:
        labels = collect_labels(examples, positive)
        assert metrics.choose_metric("auto", labels, examples) == metric


METRICS = ("accuracy", "macro_f1", "micro_f1", "matthews", "f1", "map", "mrr")


@pytest.mark.parametrize("metric", METRICS)
def test_compared_scores_are_those_of_the_files(metric):
    """What compare.py sums over records is the score that evaluate.py gives."""
    random = np.random.default_rng(5)
    systems, statistic = [], None
    examples = ranked({f"q{n}": random.choice(["0", "1"], 5).tolist() for n in range(12)})
    labels = collect_labels(examples)
    for _ in range(2):
        positive = random.random(len(examples))
        candidates = make_candidates(examples, np.column_stack([1 - positive, positive]), labels)
        evaluation = evaluate(examples, candidates, labels, PROJECT / "train.py", threshold=0.4)
        found = [read_prediction("", row) for row in evaluation.predictions]
        scores = [read_score("", row) for row in evaluation.predictions]
        parts, statistic = score_parts(metric, examples, found, scores, list(labels.names), "1")
        systems.append((parts, evaluation.scores[metric]))
    (first, one), (second, other) = systems
    total = compare_columns(first, second, statistic, resamples=200).difference()
    assert (total.first, total.second) == (pytest.approx(one), pytest.approx(other))
    assert total.low < total.difference < total.high


def test_a_score_of_ones_own_that_cannot_be_compared_is_refused():
    examples = ranked({"q": ["0", "1"]})
    with pytest.raises(InputError, match="does not know how jaccard is computed: let score_parts"):
        score_parts("jaccard", examples, [("0",), ("1",)], [0.1, 0.9], ["0", "1"], "1")
