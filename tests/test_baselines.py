"""Each shipped baseline still trains and predicts, and each template's sample is scored too."""

import pytest
from conftest import ROOT
from projects import run

from generator import smoke
from generator.baselines import find_baselines


@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_runs(name, tmp_path, monkeypatch):
    [baseline] = find_baselines(ROOT, [name])
    ran = []

    def run_scripts(project, commands):
        if baseline.data_set:  # the last one scores, which the sample of the template shows
            commands = commands[:-1]
        ran.extend(run(*command, cwd=project) for command in commands)

    monkeypatch.setattr(smoke, "run_scripts", run_scripts)
    smoke.smoke_baseline(ROOT, baseline, tmp_path / name)
    assert len(ran) >= 2
