"""One replica or two, one batch or micro-batches: the same weights.

Each training runs in a process of its own: logical devices can't be made a second time.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from projects import (
    HAS_ORBIT,
    NO_ORBIT,
    TEMPLATES,
    bake_project,
    flags,
    further,
    run,
    run_workers,
    shorten,
    template_of,
)

WORKER = ROOT / "tests" / "replica_worker.py"
EXAMPLES, BATCH = 133, 32  # 5 steps an epoch; the last batch has 5 examples
EPOCHS = 3
STEPS = 15
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}
VARIANTS = {
    "one_replica": {"strategy": "single"},
    "two_replicas": {
        "strategy": "mirrored",
        "devices.logical_devices": 2,
        "accumulation": 4,
        "recompute.enabled": True,
    },
}
MORE_REPLICAS = {
    "eight_replicas": {"strategy": "mirrored", "devices.logical_devices": 8},
}
# Several processes, on one machine here; they share nothing but what they tell each other.
CLUSTERS = {
    "two_workers": {"strategy": "multi_worker"},
    "two_workers_of_two": {
        "strategy": "multi_worker",
        "devices.logical_devices": 2,
        "accumulation": 4,
    },
}
# Orbit's loop in one process and in two, in loops of another length than an epoch; micro-batches
# on one replica.
ORBIT = {
    f"{name}_orbit": {
        **{**VARIANTS, **CLUSTERS}[name],
        "orbit.enabled": True,
        "orbit.steps_per_loop": 3,
        "accumulation": 2,
    }
    for name in ("one_replica", "two_workers")
}
# All tasks share the code of many replicas, of clusters and of Orbit. The task whose model is built
# fastest shows all of it, and the one that predicts in the most other way that two workers predict
# what one does; test_resume.py shows it of relation extraction.
OF_TASK = {
    "text_classification": [*MORE_REPLICAS, *CLUSTERS, *(ORBIT if HAS_ORBIT else {})],
    "seq2seq": ["two_workers", *(["one_replica_orbit"] if HAS_ORBIT else [])],
}
NAMES = [*VARIANTS, *MORE_REPLICAS, *CLUSTERS, *ORBIT]
REPLICAS = {"two_replicas": 2, "eight_replicas": 8}
REPLICAS |= {"two_workers": 2, "two_workers_of_two": 4}

pytestmark = pytest.mark.trains


# One with pointers; test_resume.py takes another.
@pytest.fixture(scope="module", params=further(TEMPLATES, "relation_extraction"))
def project(request, tmp_path_factory) -> Path:
    project = bake_project(request.param, tmp_path_factory.mktemp("project"))
    shorten(project, {"train": EXAMPLES, "dev": 21})
    weigh(project)
    return project


def weigh(project: Path) -> None:
    """Give every third record of the training file a weight in the loss."""
    path = project / "sample" / "train.jsonl"
    if path.is_file():  # else a corpus
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for number, record in enumerate(records[::3]):
            record["weight"] = (0.5, 2, 3)[number % 3]
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def trainings(project, tmp_path_factory) -> dict[str, tuple[dict, list[dict]]]:
    """What each variant left: the arrays that the worker recorded, the rows of metrics.jsonl."""
    folder, results = tmp_path_factory.mktemp("records"), {}
    for name in [*VARIANTS, *OF_TASK.get(template_of(project), [])]:
        plan = folder / f"{name}.json"
        # One replica has the scores of all heads at once, several have those of one head.
        heads = 1000 if name == "one_replica" else 1
        observed = {"record": str(folder / f"{name}.npz"), "many_heads": heads}
        plan.write_text(json.dumps(observed), encoding="utf-8")
        asked = {
            "run_name": name,
            "epochs": EPOCHS,
            "batch_size": BATCH,
            "prediction_batch_size": 6,
            "clip_norm": 0.05,
            **DROPOUT,
            **{**VARIANTS, **MORE_REPLICAS, **CLUSTERS, **ORBIT}[name],
        }
        run_workers(
            2 if "workers" in name else 1,
            WORKER,
            project,
            plan,
            *flags(project, **asked),
            cwd=folder,
        )
        rows = (project / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8")
        with np.load(folder / f"{name}.npz") as record:
            results[name] = dict(record), [json.loads(row) for row in rows.splitlines()]
    return results


@pytest.fixture(params=NAMES)
def name(request, project, trainings) -> str:
    """The name of a variant that this project was trained in."""
    if request.param not in trainings:
        pytest.skip(
            NO_ORBIT
            if "orbit" in request.param and not HAS_ORBIT
            else f"{template_of(project)} shares the code of this variant with others"
        )
    return request.param


def arrays(record: dict, kind: str) -> dict[str, np.ndarray]:
    return {name: value for name, value in record.items() if name.startswith(f"{kind}/")}


def difference(record: dict, other: dict, kind: str) -> float:
    """Return the largest difference between two records."""
    first, second = arrays(record, kind), arrays(other, kind)
    assert first.keys() == second.keys() and first
    return max(np.abs(first[name] - second[name]).max() for name in first)


def test_weights_are_the_same(trainings, name):
    record, one = trainings[name][0], trainings["one_replica"][0]
    assert record["steps"] == one["steps"] == STEPS
    assert record["workers"] == (2 if "workers" in name else 1)
    assert record["replicas"] == REPLICAS.get(name.removesuffix("_orbit"), 1)
    assert record["examples"] % BATCH, "the last batch must be partial"
    largest = difference(record, one, "weights")
    print(f"{name}: largest difference of a weight {largest:.1e}")
    assert largest < 1e-5


def test_losses_are_the_same(trainings, name):
    rows, one = trainings[name][1], trainings["one_replica"][1]
    assert len(rows) == EPOCHS
    for key in [key for key in one[0] if key.endswith("loss")]:
        losses = [[row[key] for row in table] for table in (rows, one)]
        np.testing.assert_allclose(*losses, rtol=1e-5)


def test_each_example_is_consumed_once_an_epoch(trainings, name):
    assert trainings[name][0]["each_once"].tolist() == [True] * EPOCHS


def test_fed_arrays_are_untouched(trainings, name):
    assert trainings[name][0]["fed"] > 0
    assert trainings[name][0]["untouched"]


def test_predictions_are_the_same_and_in_order(trainings):
    record, one = trainings["two_replicas"][0], trainings["one_replica"][0]
    assert difference(record, one, "positions") == 0
    positions = np.concatenate(list(arrays(record, "positions").values()))
    assert sorted(positions) == list(range(len(positions)))
    assert difference(record, one, "predicted") < 1e-5


def test_predictions_of_two_workers_are_those_of_one_to_the_last_bit(trainings):
    if "two_workers" not in trainings:
        pytest.skip("it shares the code of clusters with those that are tried in one")
    record, one = trainings["two_workers"][0], trainings["one_replica"][0]
    assert difference(record, one, "positions") == difference(record, one, "predicted") == 0
    assert not arrays(one, "places") or difference(record, one, "places") == 0
    assert str(record["records"]) == str(one["records"]) and len(str(one["records"])) > 100


@pytest.mark.further
@pytest.mark.parametrize(
    ("without", "least"), [("clip_norm", 1e-3), ("dropout", 1e-3), ("attention_dropout", 1e-4)]
)
def test_what_is_compared_bites(project, trainings, tmp_path, without, least):
    """Without it the weights are others: the comparison above is of trainings that have it."""
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("all tasks share the code: one of them shows it")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"record": str(tmp_path / "free.npz")}), encoding="utf-8")
    asked = {"run_name": f"no_{without}", "epochs": EPOCHS, "batch_size": BATCH, **DROPOUT}
    asked |= {"strategy": "single", "clip_norm": 0.05, "prediction_batch_size": 6, without: 0}
    run(WORKER, project, plan, *flags(project, **asked), cwd=tmp_path)
    with np.load(tmp_path / "free.npz") as record:
        assert difference(dict(record), trainings["one_replica"][0], "weights") > least
