"""Each shipped baseline still trains and predicts, and each template's sample is scored too."""

import pytest
from conftest import ROOT
from projects import run

from generator import smoke
from generator.baselines import find_baselines
from generator.encoders import ENCODER, describe_encoder, own_encoder_folder
from generator.run_project import read_scores


@pytest.mark.parametrize("name", [baseline.name for baseline in find_baselines(ROOT)])
def test_baseline_runs(name, tmp_path, monkeypatch):
    [baseline] = find_baselines(ROOT, [name])
    ran = []

    def run_scripts(project, commands):
        made = own_encoder_folder(baseline, ROOT)
        train = next(command for command in commands if command[0] == "train.py")
        assert ("tiny" in train) != bool(made and made.is_dir())
        if baseline.data_set:  # the last one scores, which the sample of the template shows
            commands = commands[:-1]
        ran.extend(run(*command, cwd=project) for command in commands)

    monkeypatch.setattr(smoke, "run_scripts", run_scripts)
    smoke.smoke_baseline(ROOT, baseline, tmp_path / name)
    assert len(ran) >= 2


def test_shipped_encoders_are_small_and_those_that_were_scored():
    """Twenty megabytes live well in git; scores hold for the weights that lie beside them."""
    files = [path for path in ROOT.glob(f"baselines/*/{ENCODER}/*") if path.is_file()]
    assert files
    assert sum(path.stat().st_size for path in files) < 20e6
    compared = 0
    for baseline in find_baselines(ROOT):
        encoder, scores = own_encoder_folder(baseline, ROOT), read_scores(baseline.folder(ROOT))
        if encoder and scores:
            assert describe_encoder(baseline, encoder).items() <= scores.items()
            compared += 1
    assert compared
