"""Trainings with other losses: the same weights on two replicas, in micro-batches, and resumed."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from projects import bake_project, flags, further, run, shorten

WORKER = ROOT / "tests/replica_worker.py"
EXAMPLES, BATCH = 19, 4  # 5 steps an epoch; the last batch has 3 examples
LOSSES = {"regularization.focal_gamma": 1.5, "regularization.span_smoothing": 0.2}
FOCAL = {"regularization.focal_gamma": 1.5}
VARIANTS = {
    "entities": ("named_entity_recognition", LOSSES),
    "samples": (
        "event_extraction",
        {"regularization.dropout_samples": 3, "regularization.r_drop": 0.1},
    ),
    "tags": ("named_entity_recognition", {**LOSSES, "tagger": "crf"}),
    "relations": ("relation_extraction", {**LOSSES, "regularization.adversary": "fgm"}),
    "labels": ("text_classification", FOCAL),
}
TWO = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}

pytestmark = [
    pytest.mark.trains,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]


def train(project: Path, plan: dict, **settings) -> dict[str, np.ndarray]:
    """Train under observation; return what was recorded, nothing if the plan kills it."""
    folder = project.parent
    record = folder / "record.npz"
    own = plan or {"record": str(record)}
    (folder / "plan.json").write_text(json.dumps(own), encoding="utf-8")
    arguments = flags(project, **settings)
    done = run(WORKER, project, folder / "plan.json", *arguments, cwd=folder, check=False)
    assert done.returncode == (-signal.SIGKILL if plan else 0), f"{done.stdout}\n{done.stderr}"
    if plan:
        return {}
    with np.load(record) as arrays:
        return dict(arrays)


def largest_difference(one: dict, other: dict) -> float:
    names = [name for name in one if name.startswith("weights/")]
    assert len(names) > 10
    return max(np.abs(one[name] - other[name]).max() for name in names)


@pytest.mark.further
@pytest.mark.parametrize("name", further(VARIANTS, "entities"))
def test_weights_are_the_same_on_replicas_and_after_a_kill(name, tmp_path):
    """With dropout: one replica, and two with micro-batches that were killed in mid-epoch."""
    template, asked = VARIANTS[name]
    project = bake_project(template, tmp_path, "regularization")
    shorten(project, {"train": EXAMPLES, "dev": 4})
    small = {"epochs": 2, "batch_size": BATCH, "checkpoint_steps": 1, "clip_norm": 0.05}
    small |= {"dropout": 0.1, "attention_dropout": 0.1}
    plain = {key: value for key, value in asked.items() if key == "tagger"}
    without = train(project, {}, **small, **plain, run_name="plain")
    one = train(project, {}, **small, **asked, run_name="one")
    train(project, {"kill_at": 7}, **small, **asked, **TWO, run_name="two")
    two = train(project, {}, **small, **asked, **TWO, run_name="two")
    assert one["steps"] == two["steps"] >= 10 and two["replicas"] == 2
    assert one["each_once"].all() and one["examples"] % BATCH
    moved, largest = largest_difference(without, one), largest_difference(one, two)
    print(f"{name}: {largest:.1e} between devices, {moved:.1e} from the plain loss")
    assert largest < 1e-5 < 1e-4 < moved
