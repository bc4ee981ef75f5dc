"""The report: spans cut right, nothing of a text taken for HTML, whole without a network."""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from core.report.report import ErrorExample, ErrorItem, split_at_spans, write_report

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
            {"epoch": 2, "step": 20, "loss": float("nan"), "dev_f1": None, "learning_rate": 5e-4},
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
    assert "script" not in parser.tags and "run &lt;one&gt;" in page and "&lt;id&gt;" in page
    assert ("missed depth2", "北河") in parser.marks
    assert ("correct depth1", "Rene\u0301") in parser.marks
    assert "0.847" in page and "3.25" in page and page.index("a&lt;b") < page.index("总部位于</td>")
    assert "<svg" in page and "0.75" in page and "a &amp; b" in page


def test_page_needs_nothing_from_elsewhere(tmp_path):
    write_run(tmp_path)
    write_report(tmp_path, "run", [])
    page, parser = read_page(tmp_path)
    assert "every record is right" in page
    assert not {"link", "img", "iframe", "script"} & set(parser.tags)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\(http", page)


def test_same_run_same_page(tmp_path):
    pages = set()
    for _ in range(2):
        write_run(tmp_path)
        write_report(tmp_path, "run", [ErrorExample("a", TEXT, ITEMS)])
        pages.add(read_page(tmp_path)[0])
    assert len(pages) == 1


def test_worst_come_first_and_no_curve_is_drawn_without_metrics(tmp_path):
    write_run(tmp_path, metrics=False)
    errors = [
        ErrorExample(f"record {n}", "text", [ErrorItem("missed", "l", [(0, 2, "")])] * n)
        for n in range(60)
    ]
    write_report(tmp_path, "run", errors)
    page, _ = read_page(tmp_path)
    assert "<svg" not in page and "40 of the 59 records" in page
    assert page.index("record 59<") < page.index("record 20<") and "record 19<" not in page


@pytest.mark.parametrize("spans", [[(0, 0, "")], [(5, 3, "")], [(0, 999, "")]])
def test_odd_spans_do_not_break_the_page(spans):
    segments = split_at_spans(ErrorExample("a", TEXT, [ErrorItem("missed", "l", spans)]))
    assert "".join(segment["text"] for segment in segments) == TEXT
