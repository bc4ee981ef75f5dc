"""The report: spans cut right, nothing of a text taken for HTML, whole without a network.

Its script counts what it draws: the counts are those of scikit-learn, and a browser finds no fault.
"""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from browser import assert_page_is_sound, dump, needs_chromium, open_page, read_result
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    confusion_matrix,
    coverage_error,
    f1_score,
    precision_recall_curve,
)

from core.report.report import (
    DRAWN_ITEMS,
    PAGE,
    ErrorExample,
    ErrorItem,
    split_at_spans,
    write_report,
)
from core.scores.thresholds import precision_recall

TEXT = "🚀 <script>x</script> 北河大学\nRene\u0301"
ITEMS = [
    ErrorItem("missed", "总部位于", [(21, 25, "subject"), (21, 23, "object")]),
    ErrorItem("invented", "born_in", [(0, 5, "subject"), (3, 12, "object")], 0.75),
    ErrorItem("correct", "a & b", [(26, 31, "")]),
    ErrorItem("missed", "whole record"),
]


class Marks(HTMLParser):
    """Collects `(classes, text)` of every mark, and all tags."""

    def __init__(self):
        super().__init__()
        self.marks, self.tags, self.inside = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = dict(attrs).get("class") if tag == "mark" else None

    def handle_data(self, data):
        if self.inside:
            self.marks.append((self.inside, data))

    def handle_endtag(self, tag):
        self.inside = None


def write_run(folder, metrics=True):
    row = {"precision": 0.9, "recall": 0.8, "f1": 0.847, "correct": 8, "predicted": 9, "gold": 10}
    dev = {"file": "dev.jsonl", "records": 5, **row, "threshold": 0.5}
    scores = {"dev": {**dev, "per_predicate": {"总部位于": row, "a<b": {**row, "gold": 99}}}}
    scores |= {"seed": 7, "minutes": 3.25, "versions": {"keras": "3.15"}}
    (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    if metrics:
        lines = [
            {"epoch": 1, "step": 10, "loss": 4.0, "dev_f1": 0.2, "learning_rate": 1e-3},
            {"epoch": 2, "step": 20, "dev_f1": None, "learning_rate": 5e-4},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text, encoding="utf-8")


def read_page(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    parser = Marks()
    parser.feed(page)
    return page, parser


def test_segments_join_to_the_text_and_know_their_spans():
    segments = [SimpleNamespace(**s) for s in split_at_spans(ErrorExample("a", TEXT, ITEMS))]
    assert "".join(segment.text for segment in segments) == TEXT
    covered = {segment.text: (segment.kinds, segment.depth) for segment in segments}
    assert covered["北河"] == ("missed", 2) and covered["大学"] == ("missed", 1)
    assert covered["🚀 <"] == ("invented", 1) and covered["sc"] == ("invented", 2)
    assert covered["Rene\u0301"] == ("correct", 1)
    for start, segment in zip(starts(segments), segments, strict=True):
        spans = {s[:2] for item in ITEMS for s in item.spans}
        over = [s for s in spans if s[0] <= start < s[1]]
        assert segment.depth == len(over)


def starts(segments):
    position = 0
    for segment in segments:
        yield position
        position += len(segment.text)


def test_page_shows_texts_and_escapes_them(tmp_path):
    write_run(tmp_path)
    write_report(tmp_path, "run <one>", [ErrorExample("<id>", TEXT, ITEMS)])
    page, parser = read_page(tmp_path)
    assert parser.tags.count("script") == 2, "the facts, and what draws them"
    assert f"<title>{tmp_path.name}: run &lt;one&gt;</title>" in page and "&lt;id&gt;" in page
    assert ("missed depth2", "北河") in parser.marks
    assert ("correct depth1", "Rene\u0301") in parser.marks
    assert (
        "0.847" in page
        and "3.25" in page
        and page.index("a&lt;b") < page.index("总部位于</bdi></td>")
    )
    assert "0.75" in page and "a &amp; b" in page


def test_page_needs_nothing_from_elsewhere(tmp_path):
    write_run(tmp_path)
    write_report(tmp_path, "run", [])
    page, parser = read_page(tmp_path)
    assert "every record is right" in page
    assert not {"link", "img", "iframe", "object"} & set(parser.tags)
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(http", page)


def test_same_run_same_page(tmp_path):
    pages = set()
    for _ in range(2):
        write_run(tmp_path)
        write_report(tmp_path, "run", [ErrorExample("a", TEXT, ITEMS)])
        pages.add(read_page(tmp_path)[0])
    assert len(pages) == 1


def test_the_surest_errors_come_first(tmp_path):
    write_run(tmp_path, metrics=False)
    examples = [
        ErrorExample(f"unknown {n}", "text", [ErrorItem("missed", "l", [(0, 2, "")])] * n)
        for n in range(60)
    ]
    examples += [
        ErrorExample("sure", "text", [ErrorItem("invented", "l", [(0, 2, "")], 0.9)]),
        ErrorExample("surer", "text", [ErrorItem("missed", "l", [], 0.05)]),
        ErrorExample("surest, but right", "text", [ErrorItem("correct", "l", [], 1.0)]),
        ErrorExample("unsure", "text", [ErrorItem("invented", "l", [(0, 2, "")], 0.2)]),
    ]
    write_report(tmp_path, "run", examples)
    page, _ = read_page(tmp_path)
    found = re.findall(r"<h3><bdi>(.*?)</bdi>", page)
    assert found[:5] == ["surer", "sure", "unsure", "unknown 59", "unknown 58"]
    assert len(found) == 40 and "40 of the\n62 records" in page


@pytest.mark.parametrize("spans", [[(0, 0, "")], [(5, 3, "")], [(0, 999, "")]])
def test_odd_spans_do_not_break_the_page(spans):
    segments = split_at_spans(ErrorExample("a", TEXT, [ErrorItem("missed", "l", spans)]))
    assert "".join(segment["text"] for segment in segments) == TEXT


# ------------------------------------------------------------------------ what is counted


def draw_scores(random, most=60):
    """Return probabilities, many of them equal, and whether each is gold."""
    count = random.integers(1, most)
    scores = random.choice([random.random(count), random.integers(0, 11, count) / 10])
    return scores, random.random(count) < random.random()


@pytest.mark.parametrize("seed", range(5))
def test_precision_and_recall_are_those_of_scikit_learn(seed):
    random = np.random.default_rng(seed)
    for _ in range(200):
        scores, hits = draw_scores(random)
        hits[0] = True
        threshold = random.random()
        first, *rows = precision_recall(scores, hits, sum(hits), threshold, most=1000)
        precision, recall, thresholds = precision_recall_curve(hits, scores)
        expected = np.stack([thresholds, precision[:-1], recall[:-1]], axis=1)[::-1]
        np.testing.assert_allclose(rows, expected, atol=1e-4)
        kept = scores > threshold
        right = [hits[kept].mean() if kept.any() else 0, hits[kept].sum() / hits.sum()]
        np.testing.assert_allclose(first, [threshold, *right], atol=1e-4)
        few = precision_recall(scores, hits, sum(hits), threshold, most=5)
        assert few[0] == first and len(few) <= 6 and all(row in rows for row in few[1:])


def compute(folder, expressions):
    """Return what the functions of the page make of some arguments, all in one browser."""
    write_run(folder)
    write_report(folder, "run", [])
    calls = json.dumps(expressions)
    script = f"""<script>
    const results = {calls}.map(([name, ...values]) => window[name](...values));
    const pre = document.createElement("pre");
    pre.textContent = JSON.stringify(results);
    document.body.replaceChildren(pre);
    </script></body>"""
    page = (folder / "report.html").read_text(encoding="utf-8")
    path = folder / "computed.html"
    path.write_text(page.replace("</body>", script), encoding="utf-8")
    return read_result(dump(path))


def label_facts(gold, found):
    """Return the facts of a record with one label."""
    items = (
        [["c", gold, [], 0.5]] if gold == found else [["m", gold, [], 0.1], ["i", found, [], 0.5]]
    )
    return {"items": items, "length": 1}


@needs_chromium
def test_the_script_counts_as_scikit_learn_does(tmp_path):
    random = np.random.default_rng(0)
    calls, checks = [], []

    def expect(name, *values):
        calls.append([name, *values])
        return lambda check: checks.append(check)

    for _ in range(150):
        scores, hits = draw_scores(random)
        hits[0] = True

        def is_curve(rows, scores=scores, hits=hits):
            precision, recall, thresholds = precision_recall_curve(hits, scores)
            expected = np.stack([thresholds, precision[:-1], recall[:-1]], axis=1)[::-1]
            np.testing.assert_allclose(rows[1:], expected, rtol=1e-12)
            kept = scores > 0.45
            assert rows[0][1] == pytest.approx(hits[kept].mean() if kept.any() else 0)
            assert rows[0][2] == pytest.approx(hits[kept].sum() / hits.sum())

        def is_calibration(bins, scores=scores, hits=hits):
            right, sure = calibration_curve(hits, scores, n_bins=10)
            np.testing.assert_allclose([row["right"] for row in bins], right, rtol=1e-12)
            np.testing.assert_allclose([row["sure"] for row in bins], sure, rtol=1e-12)
            assert sum(row["count"] for row in bins) == len(scores)

        pairs = list(zip(scores.tolist(), hits.tolist(), strict=True))
        expect("precisionRecall", pairs, 0.45)(is_curve)
        expect("calibrate", scores.tolist(), hits.tolist())(is_calibration)

        labels = int(random.integers(3, 7))
        gold, found = random.integers(0, labels, (2, len(scores)))

        def is_matrix(items, gold=gold, found=found, labels=labels):
            matrix = np.zeros((labels, labels), int)
            for item in items:
                matrix[item["gold"], item["found"]] += 1
            assert (matrix == confusion_matrix(gold, found, labels=range(labels))).all()

        facts = [label_facts(*both) for both in zip(gold.tolist(), found.tolist(), strict=True)]
        expect("pairs", facts)(is_matrix)
        items = [
            {"gold": g, "found": f} for g, f in zip(gold.tolist(), found.tolist(), strict=True)
        ]
        micro = f1_score(gold, found, labels=range(labels), average="micro")
        expect("f1", items)(
            lambda value, micro=micro: None if value == pytest.approx(micro) else 1 / 0
        )

        table = random.choice([random.random((4, labels)), random.integers(0, 4, (4, labels)) / 4])
        truth = np.eye(labels, dtype=int)[random.integers(0, labels, 4)]
        ranked = [
            {"group": "", "candidates": list(zip(row.tolist(), own.tolist(), strict=True))}
            for row, own in zip(table, truth, strict=True)
        ]
        mean_rank = coverage_error(truth, table)
        expect("goldRanks", ranked)(
            lambda ranks, mean_rank=mean_rank: (
                None if np.mean(ranks) == pytest.approx(mean_rank) else 1 / 0
            )
        )
    for check, result in zip(checks, compute(tmp_path, calls), strict=True):
        check(result)


@needs_chromium
def test_groups_are_ranked_and_lengths_are_split(tmp_path):
    group = [
        ("a", 0.9, False),
        ("a", 0.8, True),
        ("b", 0.5, True),
        ("b", 0.5, False),
        ("c", 1, False),
    ]
    facts = [{"group": name, "candidates": [[score, gold]]} for name, score, gold in group]
    [ranks] = compute(tmp_path, [["goldRanks", facts]])
    assert ranks == [2, 2], "of equal ones gold is the last; without gold there is no rank"


# --------------------------------------------------------------------------- in a browser

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\u2066" + "x" * 300


def spans_and_labels(random, count):
    """Return examples as those of triples, events and entities are."""
    examples = []
    for number in range(count):
        items = []
        for start in range(0, 12, 3):
            kind = random.choice(["missed", "invented", "correct", "correct"])
            label = random.choice(["a", "b", HOSTILE])
            score = None if kind == "missed" else float(random.random())
            items.append(ErrorItem(kind, label, [(start, start + 2, "subject"), (1, 2, "")], score))
        text = "texts of several words " * (1 + number % 7) + HOSTILE
        examples.append(ErrorExample(f"{number} {HOSTILE}", text, items))
    return examples


def labels_of_records(random, count, names=("no", "yes", HOSTILE)):
    """Return examples as those of a classification are, ranked in groups."""
    examples = []
    for number in range(count):
        sure = random.dirichlet(np.ones(len(names)))
        gold, found = random.choice(names), names[int(np.argmax(sure))]
        items = [ErrorItem("correct", gold, [], float(sure.max()))]
        if gold != found:
            items = [ErrorItem("missed", gold, [], 0.1), ErrorItem("invented", found, [], 0.6)]
        weighed = [(float(sure[0]), gold == names[0])]
        group = f"{number // 5} {HOSTILE}"
        examples.append(
            ErrorExample(number, "x" * (number % 30), items, candidates=weighed, group=group)
        )
    return examples


def measured_records(random, count):
    """Return examples as those of questions and of texts that are written are."""
    examples = []
    for number in range(count):
        right = float(random.integers(0, 2))
        items = [ErrorItem("correct" if right else "invented", HOSTILE, [], float(random.random()))]
        measures = {"F1": (right + random.random()) / 2, "exact match": right}
        kind = ["who", "何时", HOSTILE][number % 3]
        examples.append(
            ErrorExample(str(number), "x" * number, items, measures, kind, [number % 5])
        )
    return examples


ALWAYS = {"Train beside dev", "Learning rate", "Confidence", "Calibration", "By length"}
LABELLED = {"Top confusions", "Confusion matrix", "By frequency of the label"}
CHARTS = {
    spans_and_labels: ALWAYS | LABELLED,
    labels_of_records: ALWAYS | LABELLED | {"Precision and recall", "Rank of the gold candidate"},
    measured_records: ALWAYS
    | {"By kind", "Rank of the gold candidate", "F1 of each record", "Exact match of each record"},
}


@needs_chromium
@pytest.mark.parametrize("make", CHARTS, ids=lambda make: make.__name__)
def test_a_browser_draws_every_kind_of_record(make, tmp_path):
    write_run(tmp_path)
    examples = make(np.random.default_rng(1), 60)
    floor = ({"f1": 0.5, "per_predicate": {}}, make(np.random.default_rng(2), 60))
    write_report(tmp_path, HOSTILE, examples, floor)
    found = assert_page_is_sound(tmp_path / "report.html", tmp_path)
    assert CHARTS[make] <= set(found["titles"]) and "img" not in found["tags"]
    assert "floor 0.500" in found["text"]


@needs_chromium
def test_training_records_have_a_line_beside_dev(tmp_path):
    write_run(tmp_path)
    rows = [
        {"epoch": n, "step": n, "loss": 1 / n, "dev_f1": 0.2 * n, "train_f1": 0.3 * n}
        for n in (1, 2, 3)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    write_report(tmp_path, "run", spans_and_labels(np.random.default_rng(1), 20))
    found = assert_page_is_sound(tmp_path / "report.html", tmp_path)
    assert "best on dev: 0.600 at epoch 3, on training records 0.900" in found["text"]
    drawn = dump(tmp_path / "report.html").partition('data-chart="Train beside dev"')[2]
    drawn = drawn.partition("</figure>")[0]
    assert re.findall(r'<g class="(\w+)"><polyline', drawn) == ["two", "one", "three"]
    assert re.findall(r"<i></i>([^<]+)<", drawn) == ["train loss", "dev F1", "train F1"]
    places = re.findall(r'<polyline points="([^"]+)"', drawn)
    dev, train = (
        185 - np.array([float(point.split(",")[1]) for point in line.split()])
        for line in places[1:]
    )
    np.testing.assert_allclose(train / dev, 1.5, rtol=0.01)  # on one scale, which begins at 0


@needs_chromium
def test_a_run_without_scores_opens_too(tmp_path):
    (tmp_path / "scores.json").write_text('{"seed": 1}', encoding="utf-8")
    write_report(tmp_path, "run", [])
    found = open_page(tmp_path / "report.html", tmp_path)
    assert found["faults"] == [] and found["titles"] == [] and found["drawings"] == 0
    assert "every record is right" in found["text"]


@pytest.mark.parametrize("make", CHARTS, ids=lambda make: make.__name__)
def test_the_page_stays_small_and_says_what_it_draws(make, tmp_path):
    write_run(tmp_path)
    examples = make(np.random.default_rng(1), 2 * DRAWN_ITEMS)
    write_report(tmp_path, "run", examples)
    page, _ = read_page(tmp_path)
    assert len(page) < 3_000_000
    facts = json.loads(page.partition('id="facts">')[2].partition("</script>")[0])["model"]
    drawn = len(facts["examples"])
    assert facts["records"] == len(examples) and 1000 < drawn < len(examples)
    if make is labels_of_records:  # a group is drawn as a whole
        sizes = np.unique([row["group"] for row in facts["examples"]], return_counts=True)[1]
        assert set(sizes) == {5}
    assert "evenly spread" in PAGE.read_text(encoding="utf-8")
