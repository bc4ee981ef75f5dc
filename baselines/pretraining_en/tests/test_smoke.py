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
PREPARATION = {
    "encoder": "tiny",
    "vocabulary_size": 400,
    "max_length": 48,
    "processes": 1,
}
SETTINGS = {
    "run_name": RUN,
    "tiny_layers": 1,
    "tiny_width": 32,
    "batch_size": 4,
    "steps": 2,
    "strategy": "single",
    "buckets": 2,
}


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """The first lines of each file of the sample, and where the shards of them go."""
    folder, named = tmp_path_factory.mktemp("slice"), {}
    for name in ("train", "dev", "test"):
        with open(PROJECT / "sample" / f"{name}.txt", encoding="utf-8") as lines:
            text = "".join(itertools.islice(lines, 24))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        named[f"{name}_text"] = folder / f"{name}.txt"
    named.pop("test_text")
    named |= {"shards": folder / "shards", "tokenizer": folder / "tokenizer.json"}
    return {**PREPARATION, **named}


@pytest.fixture(scope="module")
def run(flags):
    """A run of two steps."""
    had_runs = (PROJECT / "runs").is_dir()
    try:
        start("prepare.py", *as_flags(flags))
        start("train.py", *as_flags({**flags, **SETTINGS}))
        yield PROJECT / "runs" / RUN
    finally:
        shutil.rmtree(PROJECT / "runs" / RUN, ignore_errors=True)
        if not had_runs:
            shutil.rmtree(PROJECT / "runs", ignore_errors=True)


def as_flags(settings):
    """Return settings as a command line has them."""
    return [f"--{name}={value}" for name, value in settings.items()]


def start(script, *arguments):
    """Run a script as `python script arguments` would."""
    before = sys.argv
    sys.argv = [str(PROJECT / script), *map(str, arguments)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.argv = before


def test_train(run):
    for name in ("config.json", "scores.json", "best.weights.h5", "report.html"):
        assert (run / name).is_file()
    rows = (run / "predictions/dev.jsonl").read_text("utf-8").splitlines()
    assert all(len(json.loads(row)["statistics"]) == 3 for row in rows)


def test_evaluate(run, flags):
    start("evaluate.py", RUN, flags["dev_text"].with_name("test.txt"))
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert 0 <= scores["test"]["accuracy"] <= 1 and scores["test"]["perplexity"] > 1


def test_export(run, tmp_path):
    from common.encoder import load_encoder, load_tokenizer
    from common.settings import RecordSettings

    start("export.py", RUN, tmp_path / "encoder", "--preset", tmp_path / "preset")
    for name in ("encoder", "preset"):
        settings = RecordSettings.model_construct(
            encoder=str(tmp_path / name), max_length=48, dropout=0.1, attention_dropout=0.0
        )
        tokenizer = load_tokenizer(settings, [])
        assert load_encoder(settings, tokenizer).vocabulary_size == tokenizer.get_vocab_size()
    with pytest.raises(SystemExit, match="exists already"):
        start("export.py", RUN, tmp_path / "encoder")


def test_compare(run, capsys):
    start("compare.py", RUN, RUN)
    assert "no clear difference" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["no_such_run", "reference"])
def test_compare_refuses_what_cannot_be_compared(run, other):
    """There is no such run; the reference was scored on the whole file."""
    with pytest.raises(SystemExit, match="error: "):
        start("compare.py", RUN, other)
