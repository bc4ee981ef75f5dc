"""A run that is killed and started again ends as if nothing had happened."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from browser import assert_page_is_sound, needs_chromium
from conftest import ROOT
from project_process import ProjectProcess
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
STEPS = 6  # an epoch: 90 examples in batches of 16, the last of 10
END = 16  # within the third epoch
# Dropout is on; the settings leave its seeds no other way than through the checkpoint.
SETTINGS = {
    "epochs": 3,
    "steps": END,
    "batch_size": 16,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
CURVE = {"regularization.curve_records": 7}
KILLS = {
    # The checkpoint is of the end of epoch 0.
    "before_the_first_of_an_epoch": {"plan": {"kill_at": 8}, "checkpoint_steps": 100},
    # A checkpoint falls due at the last step of an epoch, and the scoring after it is not survived.
    "in_scoring": {"plan": {"kill_in_scoring": 2 * STEPS}, "checkpoint_steps": STEPS},
}

pytestmark = pytest.mark.trains
# Only its first epoch is a task's own; these two are also interrupted later, and have extras.
LATER = ("relation_extraction", TEMPLATES[-1])
needs_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"
)


@pytest.fixture(scope="module", params=further(TEMPLATES, TEMPLATES[-1]))
def project(request, tmp_path_factory) -> Path:
    """A project, in most tasks without any extras: to go on is core's own."""
    extras = "cluster, orbit, regularization" if request.param in LATER else "none"
    project = bake_project(request.param, tmp_path_factory.mktemp("project"), extras)
    shorten(project, {"train": 90, "dev": 12})
    return project


@pytest.fixture(scope="module")
def whole(project) -> Path:
    """The folder of an uninterrupted run."""
    done = run("train.py", *flags(project, run_name="whole", **SETTINGS), cwd=project)
    assert done.stdout.count("6/6 - ") == 2 and "4/4 - " in done.stdout  # steps of each epoch
    return project / "runs" / "whole"


def interrupt(project: Path, name: str, folder: Path, plan: dict, **settings) -> str:
    """Start a run that a plan ends; return what it prints."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    arguments = flags(project, run_name=name, **SETTINGS, **settings)
    result = run(WORKER, project, path, *arguments, cwd=folder, check=False)
    # Whoever waits for it, such as a shell or Kubernetes, must not go on as if it were done.
    expected = 143 if "end_at" in plan else -signal.SIGKILL
    assert result.returncode == expected, f"{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr, result.stderr
    assert "finished" not in read_scores(project / "runs" / name)
    return result.stdout


def read_scores(folder: Path) -> dict:
    """Return scores.json of a run; empty if it has none yet."""
    path = folder / "scores.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def weights(folder: Path) -> dict[str, np.ndarray]:
    arrays = {}
    with h5py.File(folder / "best.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


def rows(folder: Path) -> list[dict]:
    """Return metrics.jsonl without what a clock says, and without scores of training records."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    others = ("train_", "examples_per_second", "tokens_per_second")
    return [
        {name: value for name, value in json.loads(line).items() if not name.startswith(others)}
        for line in lines
    ]


@pytest.fixture(scope="module")
def asked(project) -> dict:
    """Settings of the runs that are interrupted: training records are scored as dev is.

    They were not in the run that was left alone.
    """
    more = CURVE if (project / "extras/regularization").is_dir() else {}
    return {**more, "checkpoint_steps": 7}


@pytest.fixture(scope="module")
def told_to_end(project, asked, tmp_path_factory) -> tuple[Path, str]:
    """The folder of a run that was told to end in its first epoch, and what it printed."""
    said = interrupt(project, "unfinished", tmp_path_factory.mktemp("plan"), {"end_at": 4}, **asked)
    return project / "runs/unfinished", said


@needs_signals
def test_a_run_that_is_interrupted_ends_like_another(project, whole, asked, told_to_end, tmp_path):
    """It is told to end; killed in its last epoch, which is cut short; killed in its report."""
    unfinished, said = told_to_end
    folder = project / "runs/again"
    shutil.copytree(unfinished, folder)
    assert "told to end: all is saved" in said
    assert saved_updates(folder) == 5  # the step after the signal is a whole one
    if template_of(project) in LATER:
        interrupt(project, "again", tmp_path, {"kill_at": END - 1}, **asked)
        assert saved_updates(folder) == 14  # the update after it is lost
        interrupt(project, "again", tmp_path, {"kill_in_report": True}, **asked)
    assert not (folder / "report.html").exists()
    # From another folder, with another hash seed: the run is found and ends all the same.
    again = flags(project, run_name="again", **SETTINGS, **asked)
    run(project / "train.py", *again, cwd=tmp_path, anew=True)
    assert (folder / "report.html").is_file()
    assert_same_end(folder, whole)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    scored = [json.loads(line).get("train_records") for line in lines]
    assert scored == [7 if len(asked) > 1 else None] * 3


@pytest.mark.shown("in_scoring")
@needs_signals
@pytest.mark.parametrize("name", KILLS)
def test_a_run_that_is_killed_between_epochs_ends_like_another(project, whole, name, tmp_path):
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("where the shared code is interrupted makes no difference between the tasks")
    asked = {"checkpoint_steps": KILLS[name]["checkpoint_steps"]}
    interrupt(project, name, tmp_path, KILLS[name]["plan"], **asked)
    folder = project / "runs" / name
    assert saved_updates(folder) == STEPS
    run("train.py", *flags(project, run_name=name, **SETTINGS, **asked), cwd=project)
    assert_same_end(folder, whole)


def saved_updates(folder: Path) -> int:
    """Return the updates of the newest checkpoint of a run."""
    with np.load(folder / "checkpoint.npz") as saved:
        return int(saved["position/updates"])


def assert_same_end(folder: Path, whole: Path) -> None:
    """Compare what a run left, that was interrupted, with what one left that was not."""
    expected, found = weights(whole), weights(folder)
    assert expected.keys() == found.keys() and expected
    largest = max(np.abs(expected[key] - found[key]).max() for key in expected)
    print(f"{folder.name}: largest difference of a weight {largest:.1e}")
    assert largest < 1e-7
    steps = [(row["epoch"], row["step"]) for row in rows(folder)]
    assert steps == [(1, STEPS), (2, 2 * STEPS), (2.6667, END)]
    for row, other in zip(rows(folder), rows(whole), strict=True):
        assert row == pytest.approx(other, rel=1e-6)
    scores, expected_scores = read_scores(folder), read_scores(whole)
    scores["dev"].pop("beside", None)
    assert scores["dev"] == expected_scores["dev"]
    assert scores["epochs"] == expected_scores["epochs"]
    predictions = [(f / "predictions" / "dev.jsonl").read_bytes() for f in (folder, whole)]
    assert predictions[0] == predictions[1]
    assert not (folder / "checkpoint.npz").exists()


@pytest.fixture(scope="module", params=["fit", "orbit"])
def cluster(request, project) -> tuple[str, dict, Path]:
    """A loop, the settings of two workers with it, the folder of their uninterrupted run."""
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("all tasks share the code of clusters: one of them shows it")
    if request.param == "orbit" and not HAS_ORBIT:
        pytest.skip(NO_ORBIT)
    settings = {**SETTINGS, "strategy": "multi_worker", "checkpoint_steps": 4}
    if request.param == "orbit":
        settings |= {"orbit.enabled": True, "orbit.steps_per_loop": 2}
    name = f"cluster_{request.param}"
    run_workers(2, "train.py", *flags(project, run_name=name, **settings), cwd=project)
    return request.param, settings, project / "runs" / name


def end_second_worker(project: Path, plan: dict, folder: Path, asked: list[str]) -> list:
    """Run a cluster whose second worker does not get to the end, by a plan."""
    path = folder / "plan.json"
    path.write_text(json.dumps({**plan, "kill_worker": 1}), encoding="utf-8")
    workers = run_workers(2, WORKER, project, path, *asked, cwd=folder, check=False)
    assert not any("Traceback" in worker.stderr for worker in workers), workers
    return workers


@pytest.mark.further
@needs_signals
def test_a_cluster_that_was_stopped_ends_like_an_uninterrupted_one(project, cluster, tmp_path):
    """It is told to end in its second epoch, and loses a worker in its third."""
    loop, settings, whole = cluster
    name = f"stopped_{loop}"
    folder, asked = project / "runs" / name, flags(project, run_name=name, **settings)
    workers = end_second_worker(project, {"end_at": 10}, tmp_path, asked)
    # All save, whichever was told, and none is told of before the end of the epoch.
    assert [worker.returncode for worker in workers] == [143, 143], workers
    assert "told to end: all is saved" in workers[0].stdout
    if loop == "orbit":
        assert (folder / "checkpoints" / "ckpt-12.index").is_file()
    else:
        assert saved_updates(folder) == 12
    if loop == "fit":  # Orbit's goes on from a checkpoint alike, whoever ended it
        workers = end_second_worker(project, {"kill_at": 14}, tmp_path, asked)
        assert workers[1].returncode == -signal.SIGKILL, workers
        assert any(folder.glob("checkpoint*"))
    assert "finished" not in read_scores(folder)
    run_workers(2, "train.py", *asked, cwd=project)
    assert_same_end(folder, whole)


@pytest.mark.further
def test_two_workers_predict_what_one_does(project, whole, tmp_path):
    if template_of(project) != "relation_extraction":
        pytest.skip("test_replicas.py shows it of other tasks")
    predict = ["predict.py", whole.name, project / "sample" / "dev.jsonl"]
    run_workers(2, *predict, tmp_path / "by_two.jsonl", cwd=project)
    run(*predict, tmp_path / "by_one.jsonl", cwd=project)
    assert (tmp_path / "by_two.jsonl").read_bytes() == (tmp_path / "by_one.jsonl").read_bytes()


@pytest.mark.further
@pytest.mark.skipif(not HAS_ORBIT, reason=NO_ORBIT)
def test_one_process_trains_and_another_scores(project, whole):
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("all tasks share the code of Orbit's loop: one of them shows it")
    jobs = {"orbit.enabled": True, "orbit.steps_per_loop": 3, "run_name": "two_jobs"}
    asked = flags(project, **SETTINGS, **jobs)
    scoring = subprocess.Popen(
        [sys.executable, "train.py", *asked, "--orbit.job", "evaluate"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    folder = project / "runs" / "two_jobs"
    while not (folder / "labels.json").is_file() and scoring.poll() is None:
        time.sleep(0.1)
    done = run("train.py", *asked, "--orbit.job", "train", cwd=project)
    assert "all steps are trained" in done.stdout
    out, _ = scoring.communicate(timeout=300)
    assert scoring.returncode == 0 and "Traceback" not in out, out
    steps = [row["step"] for row in rows(folder)]
    # Orbit saves after its first loop and with each epoch; of these the newest three stay.
    saved = {jobs["orbit.steps_per_loop"], STEPS, 2 * STEPS, END}
    assert steps[-1] == END and set(steps) <= saved
    last, expected = rows(folder)[-1], rows(whole)[-1]
    assert last == pytest.approx(expected, rel=1e-6)
    assert "finished" in read_scores(folder) and not (folder / "checkpoints").exists()


@pytest.mark.further
@pytest.mark.skipif(not HAS_ORBIT, reason=NO_ORBIT)
def test_scoring_goes_through_all_checkpoints_and_ends_when_no_more_come(project, tmp_path):
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("all tasks share the code of Orbit's loop: one of them shows it")
    jobs = {"orbit.enabled": True, "orbit.steps_per_loop": 2, "checkpoint_steps": 2}
    interrupt(project, "dead", tmp_path, {"kill_at": 8}, **jobs, **{"orbit.job": "train"})
    folder = project / "runs" / "dead"
    for part in (folder / "checkpoints").glob("ckpt-4.data*"):
        part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    scoring = {**jobs, "orbit.job": "evaluate", "orbit.wait_minutes": 0.05}
    asked = flags(project, run_name="dead", **SETTINGS, **scoring)
    for begun in (False, True):  # once more: what is scored stays so
        done = run("train.py", *asked, cwd=project, check=False)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert [row["step"] for row in rows(folder)] == [2, 6]
        assert begun or "ckpt-4, which is damaged" in done.stdout
        assert f"waiting for a checkpoint after step 6 of {END} in" in done.stdout
        sentence = done.stderr.splitlines()[-1]
        assert f"error: no checkpoint after step 6 of {END} has come" in sentence
        assert "for 0.05 minutes (orbit.wait_minutes), and the training is not fin" in sentence


@pytest.mark.further
@pytest.mark.skipif(not HAS_ORBIT, reason=NO_ORBIT)
def test_orbit_passes_over_a_torn_checkpoint(project, whole, tmp_path):
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("all tasks share the code of Orbit's loop: one of them shows it")
    orbit = {"orbit.enabled": True, "orbit.steps_per_loop": 2, "checkpoint_steps": 2}
    interrupt(project, "torn_orbit", tmp_path, {"kill_at": 8}, **orbit)
    folder = whole.with_name("torn_orbit")
    for part in (folder / "checkpoints").glob("ckpt-6*"):
        part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    done = run("train.py", *flags(project, run_name="torn_orbit", **SETTINGS, **orbit), cwd=project)
    assert "ckpt-6 is damaged" in done.stdout and "going on from the one before" in done.stdout
    # `whole` is of Keras's loop, whose last bits are others.
    expected, found = weights(whole), weights(folder)
    assert max(np.abs(expected[key] - found[key]).max() for key in expected) < 1e-6
    assert [row["step"] for row in rows(folder)] == [STEPS, 2 * STEPS, END]


@pytest.fixture(scope="module")
def process(project):
    """Runs the project's scripts without importing TensorFlow for each."""
    process = ProjectProcess(project)
    yield process
    process.stop()


def refusal(process: ProjectProcess, **settings) -> str:
    """Return the one sentence that train.py refuses with."""
    done = process.run("train.py", *flags(process.project, **SETTINGS, **settings))
    assert done.code == 1, f"{done.out}\n{done.err}"
    assert "Traceback" not in done.err
    sentence = done.err.strip().splitlines()[-1]
    assert sentence.startswith("error: ")
    return sentence


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_finished_run_is_refused(process, whole):
    before = contents(whole)
    sentence = refusal(process, run_name="whole")
    assert "runs/whole is a finished run" in sentence and "--overwrite" in sentence
    assert contents(whole) == before


@needs_chromium
def test_the_report_of_every_task_opens_in_a_browser(whole, tmp_path):
    found = assert_page_is_sound(whole / "report.html", tmp_path)
    assert found["text"].startswith("whole: ")
    assert {"Train beside dev", "Learning rate", "By length"} <= set(found["titles"])


@pytest.fixture
def unfinished(told_to_end) -> Path:
    """A run as it was before its end; tests change copies of it."""
    return told_to_end[0]


def test_other_settings_are_refused(process, asked, unfinished):
    before = contents(unfinished)
    sentence = refusal(process, run_name="unfinished", learning_rate=0.5, **asked)
    assert "learning_rate = 0.001, now it is 0.5" in sentence
    assert contents(unfinished) == before


def test_a_torn_checkpoint_is_skipped_for_the_one_before(process, whole, tmp_path):
    project = process.project
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("where a checkpoint is torn makes no difference between the tasks")
    interrupt(project, "half", tmp_path, {"kill_at": 5}, checkpoint_steps=2)
    folder = whole.with_name("half")
    newest = (folder / "checkpoint.npz").read_bytes()
    (folder / "checkpoint.npz").write_bytes(newest[: len(newest) // 2])
    done = process.run("train.py", *flags(project, run_name="half", **SETTINGS, checkpoint_steps=2))
    assert done.code == 0, done.err
    assert "checkpoint.npz is damaged" in done.out and "going on from the one before" in done.out
    assert_same_end(folder, whole)
    assert not (folder / "older_checkpoint.npz").exists()


def test_torn_checkpoint_gets_its_sentence(process, asked, unfinished):
    torn = unfinished.with_name("torn")
    shutil.copytree(unfinished, torn)
    (torn / "older_checkpoint.npz").unlink(missing_ok=True)
    whole_bytes = (torn / "checkpoint.npz").read_bytes()
    for size in (0, 10, len(whole_bytes) // 2, len(whole_bytes) - 30):
        (torn / "checkpoint.npz").write_bytes(whole_bytes[:size])
        sentence = refusal(process, run_name="torn", **asked)
        assert "checkpoint.npz is damaged" in sentence and "delete it" in sentence
        assert (torn / "checkpoint.npz").read_bytes() == whole_bytes[:size]


def test_what_changes_no_weight_does_not_keep_a_run_from_going_on(process, asked, unfinished):
    """Neither do leavings of dead processes; changed code is named."""
    project, altered = process.project, unfinished.with_name("altered")
    shutil.copytree(unfinished, altered)
    for name in ("checkpoint.npz", "older_checkpoint.npz"):
        (altered / name).write_bytes(b"torn")  # far enough: it was about to go on
    (altered / ".writing-dead").mkdir()
    (altered / ".writing-dead/best.weights.h5").write_bytes(b"half")
    model = project / "task/model.py"
    before = model.read_bytes()
    free = {"strategy": "single", "prediction_batch_size": 7, "devices.tpu": "none"}
    free |= {"checkpoint_steps": 3}
    free |= {"cluster.port": 4321} if (project / "extras/cluster").is_dir() else {}
    free |= {"text_classification": {"floor": False}, "reading_comprehension": {"n_best": 3}}.get(
        template_of(project), {}
    )
    if template_of(project) != "pretraining":
        moved = project / "sample/moved.jsonl"
        shutil.copy(project / "sample/train.jsonl", moved)
        free["train_file"] = "sample/moved.jsonl"
    again = flags(project, run_name="altered", **{**SETTINGS, **asked, **free})
    try:
        model.write_bytes(before + b"\nA_NEW_CONSTANT = 1\n")
        done = process.run("train.py", *again)
    finally:
        model.write_bytes(before)
    assert done.code == 1 and "checkpoint.npz is damaged" in done.err, done.err
    assert "warning: changed since runs/altered was begun: task/model.py." in done.out
    assert not (altered / ".writing-dead").exists()


@pytest.mark.further
@needs_signals
def test_an_overwriting_that_is_killed_goes_on(project, whole, tmp_path):
    if template_of(project) != TEMPLATES[-1]:
        pytest.skip("how a run is overwritten makes no difference between the tasks")
    folder = project / "runs/replaced"
    shutil.copytree(whole, folder)
    again = {"checkpoint_steps": 4, "overwrite": True}
    interrupt(project, "replaced", tmp_path, {"kill_at": 10}, **again)
    first = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert first not in (whole / "metrics.jsonl").read_text(encoding="utf-8")
    run("train.py", *flags(project, run_name="replaced", **SETTINGS, **again), cwd=project)
    assert_same_end(folder, whole)
    # The very line, with its times: nothing was trained twice.
    assert (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0] == first
