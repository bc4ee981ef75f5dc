"""Tests that the smoke tests of all tasks share: import them into test_smoke.py."""

import json
from pathlib import Path

import pytest
from conftest import RUN, start

from core.base.extras import present

needs_comparison = pytest.mark.skipif(
    "comparison" not in present(), reason="extras/comparison is absent"
)


def test_train(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows] == [2]
    assert 0 < rows[0]["loss"] < float("inf")
    for name in ("config.json", "scores.json", "best.weights.h5", "report.html"):
        assert (run / name).is_file()


@needs_comparison
def test_compare(run: Path, capsys: pytest.CaptureFixture) -> None:
    start("compare.py", RUN, RUN)
    assert "the same on every record" in capsys.readouterr().out


@needs_comparison
@pytest.mark.parametrize("other", ["no_such_run", "reference"])
def test_compare_refuses_what_cannot_be_compared(run: Path, other: str) -> None:
    """There is no such run; the reference was scored on the whole file."""
    with pytest.raises(SystemExit, match="error: "):
        start("compare.py", RUN, other)
