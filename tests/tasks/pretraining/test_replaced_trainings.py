"""An ELECTRA is adapted to texts with its own objective: on replicas, interrupted, exported."""

import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from encoder_peer import seeded
from projects import bake_project, flags, run, shorten
from run_weights import largest_difference, weights
from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.trains

WORKER = ROOT / "tests/replica_worker.py"
HERE = Path(__file__).parent
TRAINING = {
    "encoder": "electra",
    "objective": "replaced",
    "max_length": 40,
    "epochs": 2,
    "batch_size": 8,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "checkpoint_steps": 3,
}
REPLICAS = {
    "strategy": "mirrored",
    "devices.logical_devices": 2,
    "accumulation": 2,
    "recompute.enabled": True,
}
GENERATOR = {"encoders.generator": "generator"}


def write_electra(project: Path, name: str, numbers: str) -> None:
    """Write a small ELECTRA for the vocabulary of the project."""
    made = json.loads((HERE / numbers).read_text(encoding="utf-8"))["electra"]
    tokenizer = (project / "vocabulary/tokenizer.json").read_text(encoding="utf-8")
    rows = len(json.loads(tokenizer)["model"]["vocab"])
    folder = project / name
    folder.mkdir()
    config = json.dumps({**made["config"], "vocab_size": rows})
    (folder / "config.json").write_text(config, encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    shapes = {n: [rows if size == 60 else size for size in s] for n, s in made["shapes"].items()}
    state = {n: 0.3 * seeded(n, tuple(shape)) for n, shape in shapes.items()}
    save_file(state, folder / "model.safetensors")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with an ELECTRA and its generator, shards, and trainings that nothing disturbed."""
    project = bake_project("pretraining", tmp_path_factory.mktemp("p"), "encoders, recompute")
    for part, count in (("train", 40), ("dev", 9)):
        path = project / f"sample/{part}.txt"
        kept = path.read_text(encoding="utf-8").splitlines()[:count]
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    run("train_vocabulary.py", cwd=project)
    write_electra(project, "electra", "replaced_numbers.json")
    write_electra(project, "generator", "masked_numbers.json")
    asked = {name: TRAINING[name] for name in ("encoder", "objective", "max_length")}
    run("prepare.py", *flags(project, **asked), cwd=project)
    run("train.py", *flags(project, run_name="whole", **TRAINING), cwd=project)
    asked = {**TRAINING, **GENERATOR, "run_name": "generated"}
    run("train.py", *flags(project, **asked), cwd=project)
    return project


@pytest.mark.further
@pytest.mark.parametrize(("one", "more"), [("whole", {}), ("generated", GENERATOR)])
def test_two_replicas_micro_batches_and_recomputed_layers(one, more, project):
    asked = {**TRAINING, **REPLICAS, **more, "run_name": f"two_{one}"}
    run("train.py", *flags(project, **asked), cwd=project)
    found = [weights(project / "runs" / name) for name in (one, f"two_{one}")]
    largest = largest_difference(*found)
    print(f"largest difference {largest:.1e}")
    assert len(found[0]) > 30 and largest < 1e-5


@pytest.mark.further
def test_a_generator_makes_another_training(project):
    found = [weights(project / "runs" / name) for name in ("whole", "generated")]
    assert largest_difference(*found) > 1e-4


@pytest.mark.further
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_last_bit(project, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 5}), encoding="utf-8")
    asked = flags(project, **{**TRAINING, **GENERATOR, "run_name": "killed"})
    result = run(WORKER, project, plan, *asked, cwd=tmp_path, check=False)
    assert result.returncode == -signal.SIGKILL, f"{result.stdout}\n{result.stderr}"
    run("train.py", *asked, cwd=project)
    one, other = (weights(project / "runs" / name) for name in ("generated", "killed"))
    assert largest_difference(one, other) == 0


@pytest.mark.further
def test_an_adapted_discriminator_classifies(project, tmp_path):
    said = run("evaluate.py", "whole", "sample/dev.txt", cwd=project).stdout
    assert re.search(r"[Aa]ccuracy +0\.\d", said)
    run("export.py", "whole", tmp_path / "adapted", cwd=project)
    written, read = (
        load_file(folder / "model.safetensors")
        for folder in (tmp_path / "adapted", project / "electra")
    )
    assert written.keys() == read.keys()
    changes = {name: np.abs(written[name] - read[name]).max() for name in read}
    assert 0 < max(changes.values()) < 0.1, "trained from the weights of the folder"
    assert changes["discriminator_predictions.dense_prediction.weight"] > 0
    other = bake_project("text_classification", tmp_path, "encoders")
    shorten(other, {"train": 12, "dev": 4})
    asked = {"encoder": tmp_path / "adapted", "max_length": 40, "steps": 2}
    run("train.py", *flags(other, **asked), cwd=other)
    asked = {**TRAINING, "encoder": tmp_path / "adapted", "steps": 2, "run_name": "again"}
    run("train.py", *flags(project, **asked), cwd=project)


@pytest.mark.further
def test_a_folder_without_a_discriminator_is_refused_in_one_sentence(project):
    asked = {**TRAINING, "encoder": "generator", "run_name": "x"}
    result = run("train.py", *flags(project, **asked), cwd=project, check=False)
    said = " ".join(result.stderr.split())
    assert result.returncode == 1 and "generator has no discriminator" in said
    assert "Traceback" not in result.stderr and not (project / "runs/x").exists()
