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
    assert scores["test"]["records"] == 24
    assert 0 <= scores["test"]["argument_classification_f1"] <= 1


def test_predict(run, files, tmp_path):
    out = tmp_path / "submission.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out)
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len(records) == 24
    for record in records:
        for event in record["events"]:
            if event["trigger"]:
                assert record["text"][slice(*event["trigger"])] == event["trigger_text"]
            for argument in event["arguments"]:
                assert record["text"][slice(*argument["span"])] == argument["text"]


def test_predict_for_duee(run, files, tmp_path):
    out = tmp_path / "duee.jsonl"
    start("predict.py", RUN, files / "test.jsonl", out, "--format", "duee")
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len(records) == 24 and all(set(record) == {"id", "event_list"} for record in records)


def test_compare(run, capsys):
    start("compare.py", RUN, RUN)
    assert "no clear difference" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["no_such_run", "reference"])
def test_compare_refuses_what_cannot_be_compared(run, other):
    """There is no such run; the reference was scored on the whole file."""
    with pytest.raises(SystemExit, match="error: "):
        start("compare.py", RUN, other)
