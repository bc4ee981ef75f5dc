"""Each shipped baseline still trains, predicts and evaluates."""

import subprocess
import sys

import pytest
from conftest import ROOT

from generator.baselines import find_baselines


@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_trains_predicts_and_evaluates(name):
    result = subprocess.run(
        [sys.executable, "-m", "generator", "smoke", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
