"""Each shipped baseline still trains, predicts and evaluates."""

import pytest
from conftest import ROOT
from projects import run

from generator import smoke
from generator.baselines import find_baselines


@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_trains_predicts_and_evaluates(name, tmp_path, monkeypatch):
    ran = []

    def run_scripts(project, commands):
        ran.extend(run(*command, cwd=project) for command in commands)

    monkeypatch.setattr(smoke, "run_scripts", run_scripts)
    [baseline] = find_baselines(ROOT, [name])
    smoke.smoke_baseline(ROOT, baseline, tmp_path / name)
    assert len(ran) >= 3
