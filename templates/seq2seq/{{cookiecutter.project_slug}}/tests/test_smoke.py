"""Two steps of everything: python -m pytest, under a minute, and nothing stays behind."""

import json
from pathlib import Path

import pytest
from conftest import RECORDS, RUN, start
from smoke import test_compare, test_compare_refuses_what_cannot_be_compared  # noqa: F401

SETTINGS = {"target_length": 24}


def read_lines(path: Path) -> list[dict]:
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
    assert 0 <= scores["files"]["test"]["exact_match"] <= 1


@pytest.mark.parametrize("flags", [(), ("--beams", "1"), ("--decoding", "sample")])
def test_predict(run: Path, files: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    out = tmp_path / "submission.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out, *flags)
    records, sources = read_lines(out), read_lines(files / "test.jsonl")
    assert [record["id"] for record in records] == [source["id"] for source in sources]
    assert all(isinstance(record["prediction"], str) for record in records)


def test_predict_lines_of_text(run: Path, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "submission.txt"
    start("predict.py", RUN, files / "test.jsonl", out)
    assert len(out.read_text("utf-8").splitlines()) == RECORDS


def test_predict_refuses_what_a_setting_may_not_be(run: Path, files: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="error: --beams = '0'"):
        start("predict.py", RUN, files / "test.jsonl", tmp_path / "out.jsonl", "--beams", "0")
