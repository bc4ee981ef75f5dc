"""Two steps of everything: python -m pytest, under a minute, and nothing stays behind."""

import json
from pathlib import Path

from conftest import RECORDS, RUN, start
from smoke import test_compare, test_compare_refuses_what_cannot_be_compared, test_train  # noqa: F401


def test_evaluate(run: Path, files: Path) -> None:
    start("evaluate.py", RUN, files / "test.jsonl")
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert scores["files"]["test"]["records"] == RECORDS
    assert 0 <= scores["files"]["test"]["f1"] <= 1


def test_predict(run: Path, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "submission.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out)
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len(records) == RECORDS
    for record in records:
        for triple in record["triples"]:
            assert record["text"][slice(*triple["subject"])] == triple["subject_text"]
            assert record["text"][slice(*triple["object"])] == triple["object_text"]
