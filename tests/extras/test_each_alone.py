"""Every project trains two steps with each single extra, and with all."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT
from projects import HAS_ORBIT, NO_ORBIT, TEMPLATES, bake_project, flags, further, run, shorten

from core.base.extras import EXTRA_NAMES
from generator.bake import load_baking

pytestmark = pytest.mark.trains

BAKING = load_baking(ROOT / "templates")
# What switches an extra on; the others are asked by scripts, or by `strategy`.
SWITCHES = {
    "cluster": {"port": "12399"},
    "orbit": {"enabled": "true", "steps_per_loop": "2"},
    "optimizers": {"kind": '"lamb"', "layer_decay": "0.9", "lookahead": "2"},
    "regularization": {"adversary": '"fgm"', "curve_records": "8"},
    "averaging": {"ema": "0.5", "soup": "1"},
    "recompute": {"enabled": "true"},
    "cache": {"enabled": "true"},
    "long_documents": {"window": "32", "overlap": "8"},
}
# They read nothing of a task, or nothing that trains: one task shows each of them alone, and all
# tasks show them together.
ALIKE = ("cluster", "parameter_server", "orbit", "tpu", "export", "chunks", "doctor", "encoders")
ALIKE += ("averaging", "optimizers", "recompute", "used_rows", "search", "runs_table")
ALIKE += ("bundle", "host_formats")
# Tests of their own train every task that has records with one of them.
OWN_TESTS = ("cache", "extraction", "folds", "distillation", "blends", "long_documents")
# The project's own test of a training, by the project's own settings for it. What pytest does at
# its end, to find errors that nobody saw, takes longer than the training.
SMOKE = """
import os, sys
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
import pytest
import core
assert os.path.dirname(core.__file__) == os.path.abspath("core")
options = [f"-pno:{name}" for name in ("cacheprovider", "unraisableexception", "threadexception")]
options.append("--basetemp=" + os.path.abspath("../smoke"))  # the files of other pytest runs stay
sys.exit(pytest.main(["-q", "-rs", *options, "tests/test_smoke.py", *sys.argv[1:]]))
"""


def switch_on(project: Path, extra: str) -> None:
    """Let config.toml ask for what an extra brings."""
    config = project / "config.toml"
    before, found, table = config.read_text(encoding="utf-8").partition(f"[{extra}]\n")
    assert found
    for key, value in SWITCHES[extra].items():
        table, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", table, count=1, flags=re.M)
        assert count, key
    config.write_text(f"{before}{found}{table}", encoding="utf-8")


@pytest.mark.shown("none", "relation_extraction")
@pytest.mark.parametrize("extras", further(["none", *EXTRA_NAMES, "all"], "none", "all"))
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_trains_with(template, extras, tmp_path):
    offered = BAKING.known_extras(template)
    if extras not in ("none", "all", *offered):
        pytest.skip(f"{BAKING.owners(extras)} {extras} alone")
    if extras in OWN_TESTS:
        pytest.skip(f"test_{extras}.py trains with it alone, and this test with all extras")
    if extras == "lora":
        pytest.skip("test_lora.py trains with it alone, is killed, and goes on")
    if extras in ALIKE and template != TEMPLATES[-1]:
        pytest.skip(f"one task shows {extras} alone")
    if extras == "orbit" and not HAS_ORBIT:
        pytest.skip(NO_ORBIT)
    chosen = {"none": [], "all": offered}.get(extras, [extras])
    project = bake_project(template, tmp_path, extras)
    for needed in {*BAKING.with_needs(chosen)} - {*chosen}:
        shutil.rmtree(project / "extras" / needed)
    folders = {path.name for path in project.glob("extras/*/")}
    assert folders == set(chosen) and (project / "extras").exists() == bool(chosen)
    refused = set() if HAS_ORBIT else {"orbit"}
    if not chosen:
        return  # test_resume.py or test_gpu.py trains each task without extras
    for extra in chosen:
        if extra in SWITCHES and extra not in refused:
            switch_on(project, extra)
    # One training shows the others; all that a project tests of itself is tried with all of them.
    options = () if extras in ("all", "comparison") else ("-k", "test_train")
    said = run_smoke(project, *options)
    assert " passed" in said and "failed" not in said and ("1 passed" in said or not options)


def run_smoke(project: Path, *options: str) -> str:
    """Return what pytest says of the project's own tests."""
    script = project / "run_smoke.py"
    script.write_text(SMOKE, encoding="utf-8")
    return run(script, *options, cwd=project).stdout


@pytest.mark.further
@pytest.mark.parametrize("template", ["relation_extraction"])
def test_all_extras_of_a_project_can_be_deleted(template, tmp_path):
    """It trains on one device and on two, scores and predicts as before."""
    project = bake_project(template, tmp_path, "comparison, doctor")
    shutil.rmtree(project / "extras")
    said = run_smoke(project)
    assert " passed" in said and "failed" not in said
    skipped = [line for line in said.splitlines() if line.startswith("SKIPPED")]
    assert skipped and all(line.endswith("extras/comparison is absent") for line in skipped)
    shorten(project, {"train": 24, "dev": 8})
    asked = {"strategy": "mirrored", "devices.logical_devices": 2, "batch_size": 8, "steps": 2}
    run("train.py", *flags(project, run_name="mirrored", **asked), cwd=project)
    assert (project / "runs/mirrored/best.weights.h5").is_file()
