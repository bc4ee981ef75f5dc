"""Two steps of everything: python -m pytest, under a minute, and nothing stays behind."""

import itertools
import json
import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))
RUN = f"smoke_{os.getpid()}"
SETTINGS = {
    "run_name": RUN,
    "encoder": "tiny",
    "tiny_layers": 1,
    "tiny_width": 32,
    "batch_size": 8,
    "steps": 2,
    "strategy": "single",
    "buckets": 2,
    "target_length": 24,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The first records of each file of the sample."""
    folder = tmp_path_factory.mktemp("slice")
    for name in ("train", "dev", "test"):
        with open(PROJECT / "sample" / f"{name}.jsonl", encoding="utf-8") as lines:
            text = "".join(itertools.islice(lines, 24))
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(files):
    """A run of two steps."""
    settings = {
        **SETTINGS,
        **{f"{name}_file": files / f"{name}.jsonl" for name in ("train", "dev")},
    }
    had_runs = (PROJECT / "runs").is_dir()
    try:
        start("train.py", *(f"--{name}={value}" for name, value in settings.items()))
        yield PROJECT / "runs" / RUN
    finally:
        shutil.rmtree(PROJECT / "runs" / RUN, ignore_errors=True)
        if not had_runs:
            shutil.rmtree(PROJECT / "runs", ignore_errors=True)


def start(script, *arguments):
    """Run a script as `python script arguments` would."""
    before = sys.argv
    sys.argv = [str(PROJECT / script), *map(str, arguments)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.argv = before


def test_train(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows] == [2]
    assert 0 < rows[0]["loss"] < float("inf")
    for name in ("config.json", "scores.json", "best.weights.h5", "report.html"):
        assert (run / name).is_file()


def test_evaluate(run, files):
    start("evaluate.py", RUN, files / "test.jsonl")
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert scores["test"]["records"] == 24 and 0 <= scores["test"]["exact_match"] <= 1


@pytest.mark.parametrize("flags", [(), ("--beams", "1"), ("--decoding", "sample")])
def test_predict(run, files, tmp_path, flags):
    out = tmp_path / "submission.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out, *flags)
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    sources = [json.loads(line) for line in (files / "test.jsonl").read_text("utf-8").splitlines()]
    assert [record["id"] for record in records] == [source["id"] for source in sources]
    assert all(isinstance(record["prediction"], str) for record in records)


def test_predict_lines_of_text(run, files, tmp_path):
    out = tmp_path / "submission.txt"
    start("predict.py", RUN, RUN, files / "test.jsonl", out)
    assert len(out.read_text("utf-8").splitlines()) == 24


def test_compare(run, capsys):
    start("compare.py", RUN, RUN)
    assert "no clear difference" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["no_such_run", "reference"])
def test_compare_refuses_what_cannot_be_compared(run, other):
    """There is no such run; the reference was scored on the whole file."""
    with pytest.raises(SystemExit, match="error: "):
        start("compare.py", RUN, other)
