"""CasEE's and DuEE's scores by independent computations, and the search for a threshold."""

from collections import Counter

import numpy as np
import pytest
from conftest import use_template

use_template("event_extraction")

from extras.comparison.comparison import compare_columns, compare_labels  # noqa: E402
from formats.records import prediction_records  # noqa: E402
from inspection.errors import find_errors, read_prediction  # noqa: E402
from library.graph import Graph, eased, mentions_of  # noqa: E402
from task.decode import keep_events  # noqa: E402
from task.evaluation import describe, evaluate  # noqa: E402
from task.metrics import (  # noqa: E402
    METRICS,
    QUANTILES,
    character_f1,
    count_matches,
    score,
    tune_threshold,
)
from task.records import Event, Example, read_example  # noqa: E402

TEXT = "abcdABba哈哈cdxy"
TYPES, ROLES = ("buy", "merge", "收购"), ("who", "what", "when")


def draw_event(random):
    def span():
        start = int(random.integers(len(TEXT) - 3))
        return start, start + int(random.integers(1, 4))

    arguments = {(str(random.choice(ROLES)), span()) for _ in range(random.integers(0, 4))}
    trigger = span() if random.random() < 0.7 or not arguments else None
    return Event(str(random.choice(TYPES)), trigger, tuple(sorted(arguments)))


def draw_records(seed, records=40):
    """Return gold records and predictions that share some of their events."""
    random = np.random.default_rng(seed)
    golds, predictions = [], {}
    for number in range(records):
        events = [draw_event(random) for _ in range(random.integers(0, 4))]
        golds.append(Example(f"r{number}", TEXT, tuple(dict.fromkeys(events)), number))
        kept = [event for event in events if random.random() < 0.6]
        kept += [
            Event(event.type, event.trigger, event.arguments[1:])
            for event in events
            if event.trigger and event.arguments
        ]
        predictions[f"r{number}"] = kept + [draw_event(random)]
    return golds, predictions


def percent(correct, predicted, gold):
    precision = correct / predicted if predicted else 0
    recall = correct / gold if gold else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    return pytest.approx([precision, recall, f1])


def casee_tuples(events):
    """CasEE's tuples, written from its definitions: trigger and argument spans of each event."""
    found = {"TI": [], "TC": [], "AI": [], "AC": []}
    for event in events:
        if event.trigger is not None:
            start, end = event.trigger
            found["TI"].append((start, end))
            found["TC"].append((event.type, start, end))
        for role, (start, end) in event.arguments:
            found["AI"].append((event.type, start, end))
            found["AC"].append((event.type, start, end, role))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_casee(seed):
    golds, predictions = draw_records(seed)
    result = score(golds, predictions)
    for metric, name in zip(METRICS, ("TI", "TC", "AI", "AC"), strict=False):
        right, found, wanted = [], [], []
        for gold in golds:
            one = set(casee_tuples(gold.events)[name])
            two = set(casee_tuples(predictions[gold.id])[name])
            right += one & two
            found += two
            wanted += one
        row = result["metrics"][metric]
        assert [row["precision"], row["recall"], row["f1"]] == percent(
            len(right), len(found), len(wanted)
        )
        assert result[f"{metric}_f1"] == row["f1"]
        assert (row["correct"], row["predicted"], row["gold"]) == tuple(
            map(len, (right, found, wanted))
        )


@pytest.mark.parametrize("seed", range(5))
def test_duee_is_the_sum_of_the_overlaps(seed):
    """P = sum of scores / predicted, R = sum of scores / gold, as the competition defines them."""
    golds, predictions = draw_records(seed)
    total, found_count, gold_count = 0.0, 0, 0
    for gold in golds:
        texts = [
            {
                (e.type, role, TEXT[start:end].lower())
                for e in events
                for role, (start, end) in e.arguments
            }
            for events in (gold.events, predictions[gold.id])
        ]
        gold_count += len(texts[0])
        found_count += len(texts[1])
        for kind, role, text in texts[1]:
            overlaps = [0.0]
            for other_kind, other_role, other in texts[0]:
                rest, shared = list(other), 0
                for character in text:
                    if character in rest:
                        rest.remove(character)
                        shared += 1
                precision, recall = shared / len(text), shared / len(other)
                if shared:
                    same = (kind == other_kind) * (role == other_role)
                    overlaps.append(same * 2 * precision * recall / (precision + recall))
            total += max(overlaps)
    row = score(golds, predictions)["metrics"]["duee"]
    assert [row["precision"], row["recall"], row["f1"]] == percent(total, found_count, gold_count)


def test_characters_count_as_often_as_they_stand():
    assert character_f1("哈哈", "哈哈") == 1
    assert character_f1("哈", "哈哈") == pytest.approx(2 / 3)
    assert character_f1("ab", "cd") == 0


@pytest.mark.parametrize("seed", range(3))
def test_tables_are_those_of_their_labels(seed):
    golds, predictions = draw_records(seed)
    result = score(golds, predictions)

    def counts(name, pick):
        found = Counter()
        for gold in golds:
            one, two = (
                {item for item in casee_tuples(events)[name]}
                for events in (gold.events, predictions[gold.id])
            )
            for part, items in (("correct", one & two), ("predicted", two), ("gold", one)):
                found.update((pick(item), part) for item in items)
        return found

    tables = {
        "per_role": counts("AC", lambda item: item[3]),
        "per_type": counts("AC", lambda item: item[0]),
        "per_trigger": counts("TC", lambda item: item[0]),
    }
    for table, expected in tables.items():
        assert {label for label, _ in expected} == result[table].keys()
        for label, row in result[table].items():
            for part in ("correct", "predicted", "gold"):
                assert row[part] == expected[label, part]


def test_whole_events_must_be_right_in_every_part():
    own = Event("buy", (0, 1), (("what", (4, 5)), ("who", (2, 3))))
    golds = [Example("a", TEXT, (own,), 1)]
    near = [
        Event("buy", (0, 1), own.arguments[:1]),
        Event("merge", (0, 1), own.arguments),
        Event("buy", None, own.arguments),
        Event("buy", (0, 2), own.arguments),
    ]
    assert score(golds, {"a": near})["event_f1"] == 0
    assert score(golds, {"a": [own, *near]})["event_f1"] == pytest.approx(2 / 6)
    # Mentions don't ask which event they stand in.
    assert score(golds, {"a": near})["metrics"]["argument_classification"]["recall"] == 1


def test_an_empty_prediction_scores_nothing():
    golds = [Example("a", TEXT, (Event("buy", (0, 1), ()),), 1)]
    result = score(golds, {})
    assert all(row["f1"] == row["precision"] == 0 for row in result["metrics"].values())
    assert score([Example("a", TEXT, (), 1)], {})["event_f1"] == 0


def draw_graphs(golds, predictions, digits, seed):
    """Return a graph for each record: the predicted mentions, some of the gold, with scores."""
    random = np.random.default_rng(seed)
    graphs = {}
    for gold in golds:
        found = mentions_of([*predictions[gold.id], *gold.events])
        scored = {mention: float(np.round(random.random(), digits)) for mention in found}
        spans = sorted({span for _, _, span in found})
        links = {
            (kind, *sorted((one, two))): float(np.round(random.random() ** 0.2, digits))
            for kind in TYPES
            for one in spans
            for two in spans
        }
        graphs[gold.id] = Graph(scored, links, frozenset({"buy"}))
    return graphs


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(3))
def test_threshold_is_the_best_of_those_tried(seed, metric):
    golds, predictions = draw_records(seed, records=12)
    graphs = draw_graphs(golds, predictions, 1 if seed % 2 else 6, seed)

    def quality(threshold):
        scores = score(golds, keep_events(graphs, threshold))
        return scores[f"{metric}_f1"] + scores["event_f1"]

    threshold = tune_threshold(golds, graphs, metric)["threshold"]
    every = [eased(m[1], sure) for own in graphs.values() for m, sure in own.mentions.items()]
    tried = [0.5, *np.quantile(every, QUANTILES)]
    assert quality(threshold) == pytest.approx(max(map(quality, tried)), abs=1e-12)
    assert threshold == 0.5 or quality(threshold) > quality(0.5)


def test_a_threshold_keeps_all_its_digits(tmp_path):
    """Arguments that are nearly sure, some right: no number of six digits tells them apart."""
    path = tmp_path / "dev.jsonl"
    path.write_text("{}")
    right = Event("buy", None, (("who", (0, 1)),))
    golds = [Example(str(n), TEXT, (right,) if n < 4 else (), 1) for n in range(8)]
    graphs = {
        str(n): Graph({("buy", "who", (0, 1)): 0.9999998 if n < 4 else 0.9999996}, {}, frozenset())
        for n in range(8)
    }
    found = evaluate(golds, graphs, path, "argument_classification")
    assert found.scores["argument_classification_f1"] == found.scores["event_f1"] == 1
    again = evaluate(golds, graphs, path, "duee", found.scores["threshold"])
    assert again.scores["event_f1"] == 1


@pytest.mark.parametrize("scored", [{}, {("buy", "who", (5, 6)): 0.4}])
def test_threshold_stays_where_nothing_improves(scored):
    golds = [Example("a", TEXT, (Event("buy", None, (("who", (0, 1)),)),), 1)]
    graphs = {"a": Graph(scored, {}, frozenset())}
    assert tune_threshold(golds, graphs, "argument_classification")["threshold"] == 0.5


def test_evaluate_scores_what_it_writes(tmp_path):
    golds, predictions = draw_records(3, records=12)
    path = tmp_path / "dev.jsonl"
    path.write_text("{}")
    graphs = draw_graphs(golds, predictions, 6, 3)
    for metric in METRICS:
        evaluation = evaluate(golds, graphs, path, metric, shown=2)
        events = {
            record["id"]: read_prediction("dev.jsonl", record)[0]
            for record in evaluation.predictions
        }
        again = score(golds, events)
        assert {name: evaluation.scores[name] for name in again} == again
        fixed = evaluate(golds, graphs, path, metric, evaluation.scores["threshold"])
        curve = evaluation.scores.pop("precision_recall")
        assert fixed.scores == evaluation.scores and len(curve) > 2
        one = "argument_classification" if metric == "duee" else metric
        for threshold, precision, recall in curve[:3]:
            row = score(golds, keep_events(graphs, threshold))["metrics"][one]
            assert (row["precision"], row["recall"]) == (precision, recall)
        assert curve[0][0] == evaluation.scores["threshold"]
        assert (fixed.shown, len(evaluation.shown)) == ([], 2)
        for record in evaluation.predictions:
            read_example(record, 1, require_events=True)


def test_errors_of_the_report():
    gold = Event("buy", (0, 1), (("what", (4, 5)), ("who", (2, 3))))
    golds = [Example("a", TEXT, (gold,), 1), Example("b", TEXT, (gold,), 2)]
    found = Graph(
        {("buy", None, (0, 1)): 0.9, ("buy", "who", (2, 3)): 0.8, ("buy", "when", (6, 7)): 0.7},
        {("buy", (0, 1), (2, 3)): 0.9, ("buy", (0, 1), (6, 7)): 0.6},
        frozenset({"buy"}),
    )
    perfect = Graph(
        {("buy", role, span): 1.0 for role, span in gold.nodes()},
        {("buy", one, two): 1.0 for _, one in gold.nodes() for _, two in gold.nodes()},
        frozenset({"buy"}),
    )
    graphs = {"a": found, "b": perfect}
    records = prediction_records(golds, graphs, keep_events(graphs, 0.5))
    report, right = find_errors(golds, records)
    assert right.id == "b" and right.errors == 0 and len(right.items) == 3
    assert report.id == "a" and report.errors == 2
    items = {(item.kind, item.label, item.spans[0][:2], item.score) for item in report.items}
    assert items == {
        ("missed", "buy: what", (4, 5), None),
        ("invented", "buy: when", (6, 7), 0.7),
        ("correct", "buy: trigger", (0, 1), 0.9),
        ("correct", "buy: who", (2, 3), 0.8),
    }
    words = describe(golds[0], keep_events(graphs, 0.5)["a"])
    assert "gold:      buy: a | what=A | who=c\n" in words


def test_comparison_is_of_the_metric_that_decides():
    golds, predictions = draw_records(1)
    for metric in METRICS:
        counts = np.array([count_matches(g, predictions[g.id], metric) for g in golds])
        total = compare_columns(
            counts, 0 * counts + counts[:, [0, 1, 2]], resamples=20
        ).difference()
        assert total.first == pytest.approx(score(golds, predictions)[f"{metric}_f1"])
        assert total.verdict == "the same on every record"
    rows = compare_labels(
        {"who": {"f1": 0.5, "correct": 1, "gold": 2}},
        {"what": {"f1": 0.9, "correct": 3, "gold": 4}},
    )
    assert list(rows) == ["what", "who"] and rows["what"]["difference"] == -0.9
