"""Two steps of everything: python -m pytest, under a minute, and nothing stays behind."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RUN, SMALL, flags, start, trained
from smoke import test_compare, test_compare_refuses_what_cannot_be_compared  # noqa: F401

from core.base.extras import present

SETTINGS = {
    "max_length": 48,
    "preparation.vocabulary_size": 400,
    "preparation.processes": 1,
}


@pytest.fixture(scope="module")
def run(files: Path) -> Iterator[Path]:
    """The folder of a run of two steps, on shards of the first lines of the sample."""
    places = {"train_text": "train.txt", "dev_text": "dev.txt"}
    places |= {"shards": "shards", "tokenizer": "tokenizer.json"}
    prepared = {**SETTINGS, **{setting: files / name for setting, name in places.items()}}
    training = {**SMALL, **prepared, "batch_size": 4}
    with trained(("prepare.py", *flags(prepared)), ("train.py", *flags(training))) as folder:
        yield folder


def test_train(run: Path) -> None:
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in metrics] == [2]
    assert 0 < metrics[0]["loss"] < float("inf")
    for name in ("config.json", "scores.json", "best.weights.h5", "report.html"):
        assert (run / name).is_file()
    rows = (run / "predictions/dev.jsonl").read_text("utf-8").splitlines()
    assert all(len(json.loads(row)["statistics"]) == 3 for row in rows)


def test_evaluate(run: Path, files: Path) -> None:
    start("evaluate.py", RUN, files / "test.txt")
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert (
        0 <= scores["files"]["test"]["accuracy"] <= 1 and scores["files"]["test"]["perplexity"] > 1
    )


def test_export(run: Path, tmp_path: Path) -> None:
    from core.base.settings import RecordSettings
    from core.encoders.encoder import load_encoder, load_tokenizer

    start("export.py", RUN, tmp_path / "encoder", "--preset", tmp_path / "preset")
    # A preset of KerasHub is read by an extra.
    for name in ("encoder", "preset") if "encoders" in present() else ("encoder",):
        settings = RecordSettings.model_construct(
            encoder=str(tmp_path / name), max_length=48, dropout=0.1, attention_dropout=0.0
        )
        tokenizer = load_tokenizer(settings, [])
        assert load_encoder(settings, tokenizer).vocabulary_size == tokenizer.get_vocab_size()
    with pytest.raises(SystemExit, match="exists already"):
        start("export.py", RUN, tmp_path / "encoder")
