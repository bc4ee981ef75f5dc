"""The shipped baselines are what the templates would build, and each still works."""

import subprocess
import sys

import pytest

from generator.baselines import find_baselines
from generator.paths import ROOT


def run_baselines(*arguments: str) -> subprocess.CompletedProcess:
    """Run the command `baselines`."""
    return subprocess.run(
        [sys.executable, "-m", "generator", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def test_check_finds_nothing_to_build():
    result = run_baselines("check")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_trains_predicts_and_evaluates(name):
    result = run_baselines("smoke", name)
    assert result.returncode == 0, result.stdout + result.stderr
