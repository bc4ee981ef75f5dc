"""check.py --memory: what fits, and how fast is it?"""

import json

import numpy as np
import pytest
from projects import bake_project, flags, run, shorten

from core.base.errors import InputError
from core.base.settings import CoreSettings, with_tables
from extras.recompute import memory


@pytest.mark.trains
def test_recomputing_changes_no_loss(tmp_path):
    project = bake_project("seq2seq", tmp_path, "recompute")
    shorten(project, {"train": 40, "dev": 8, "test": 8})
    found = []
    for recompute in (False, True):
        asked = flags(project, batch_size=8, dropout=0.3, learning_rate=1e-2)
        asked += ["--recompute.enabled", str(recompute).lower()]
        done = run(project / "check.py", *asked, "--memory_trial", cwd=project)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert [one["recompute"] for one in found] == [False, True]
    assert len(set(found[0]["losses"])) == 1 + memory.TIMED_STEPS
    np.testing.assert_allclose(found[1]["losses"], found[0]["losses"], rtol=1e-5)
    assert all(one["peak"] > 0 and one["examples_per_second"] > 0 for one in found)


SETTINGS = with_tables(CoreSettings).model_construct(batch_size=16)


def try_with(monkeypatch, capsys, free: float, fits) -> list[list[str]]:
    """Return the rows that are printed, where a step of n examples takes n bytes."""

    def trial(asked):
        batch_size = int(asked[asked.index("--batch_size") + 1])
        recompute = asked[asked.index("--recompute.enabled") + 1] == "true"
        found = {"peak": batch_size << 20, "examples_per_second": 1.0}
        return found if fits(batch_size, recompute) else None

    monkeypatch.setattr(memory, "run_trial", trial)
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    memory.try_batch_sizes(SETTINGS, ["--seed", "3"])
    return [line.split() for line in capsys.readouterr().out.splitlines()[3:]]


def test_sizes_double_until_one_does_not_fit(monkeypatch, capsys):
    rows = try_with(
        monkeypatch, capsys, float("inf"), lambda size, recompute: size <= 32 + 32 * recompute
    )
    assert [row[:2] for row in rows] == [
        *(["16", "no"], ["32", "no"], ["64", "no"]),
        *(["16", "yes"], ["32", "yes"], ["64", "yes"], ["128", "yes"]),
    ]
    assert rows[1][2:] == ["32", "MiB", "1.0"]
    assert rows[2][2:] == rows[6][2:] == ["does", "not", "fit"]


def test_what_would_exhaust_the_machine_is_not_tried(monkeypatch, capsys):
    rows = try_with(monkeypatch, capsys, 40 << 20, lambda *_: True)
    assert [row[0] for row in rows] == ["16", "32", "64"] * 2
    assert rows[2][2:4] == ["not", "tried:"]


def test_another_failure_is_one_sentence(tmp_path, monkeypatch):
    script = tmp_path / "check.py"
    monkeypatch.setattr("sys.argv", [str(script)])
    script.write_text("import sys; sys.exit('config.toml, line 3: no.')", encoding="utf-8")
    with pytest.raises(InputError, match="config.toml, line 3: no."):
        memory.run_trial([])
    script.write_text("import sys; sys.exit('ResourceExhausted: OOM when ...')", encoding="utf-8")
    assert memory.run_trial([]) is None
