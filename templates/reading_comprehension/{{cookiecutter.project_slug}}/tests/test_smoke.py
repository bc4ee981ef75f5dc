"""Two steps of everything: python -m pytest, under a minute, and nothing stays behind."""

import json
from pathlib import Path

from conftest import RECORDS, RUN, start
from smoke import test_compare, test_compare_refuses_what_cannot_be_compared  # noqa: F401


def read_lines(path: Path) -> list[dict]:
    """Return the records of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_train(run: Path) -> None:
    rows = read_lines(run / "metrics.jsonl")
    assert [row["step"] for row in rows] == [2]
    assert 0 < rows[0]["loss"] < float("inf")
    for name in ("config.json", "scores.json", "best.weights.h5", "report.html"):
        assert (run / name).is_file()


def test_evaluate(run: Path, files: Path) -> None:
    start("evaluate.py", RUN, files / "test.jsonl")
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert scores["files"]["test"]["records"] == RECORDS
    assert 0 <= scores["files"]["test"]["f1"] <= 1


def test_predict(run: Path, files: Path, tmp_path: Path) -> None:
    contexts = {record["id"]: record["context"] for record in read_lines(files / "test.jsonl")}
    out = tmp_path / "n_best.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out)
    records = read_lines(out)
    assert [record["id"] for record in records] == list(contexts)
    for record in records:
        for item in record["n_best"]:
            assert contexts[record["id"]][slice(*item["answer"])] == item["text"]
            assert 0 <= item["probability"] <= 1


def test_submission(run: Path, files: Path, tmp_path: Path) -> None:
    """The form of SQuAD."""
    out = tmp_path / "submission.json"
    start("predict.py", RUN, files / "test.jsonl", out)
    answers = json.loads(out.read_text("utf-8"))
    assert len(answers) == RECORDS and all(isinstance(answer, str) for answer in answers.values())
