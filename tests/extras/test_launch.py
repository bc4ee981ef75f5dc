"""extras/cluster/: processes are started, prefixed and ended together, and know who they are."""

import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import kubernetes_validate
import pytest
import tensorflow as tf
import yaml
from conftest import ROOT
from projects import TEMPLATES, bake_project

from core.base import workers
from core.base.errors import InputError
from extras.cluster import cluster

SCRIPTS = Path(sysconfig.get_path("scripts"))
ALONE = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
WORKER = """
import json, os, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
print("first line of", task, flush=True)
if task == int(sys.argv[1]):
    sys.exit(int(sys.argv[2]))
time.sleep(float(sys.argv[3]))
print("last line of", task)
"""


# The same file in every project.
LAUNCH = ROOT / "templates/extras/cluster/launch.py"


def launch(tmp_path, *arguments, workers=3):
    (tmp_path / "worker.py").write_text(WORKER)
    began = time.monotonic()
    command = [sys.executable, LAUNCH, "--workers", str(workers)]
    done = subprocess.run(
        [*command, tmp_path / "worker.py", *arguments], capture_output=True, encoding="utf-8"
    )
    return done, time.monotonic() - began


def test_lines_begin_with_the_worker(tmp_path):
    done, _ = launch(tmp_path, "9", "0", "0")
    assert done.returncode == 0, done.stderr
    wanted = [f"[{n}] {which} line of {n}" for n in range(3) for which in ("first", "last")]
    assert sorted(done.stdout.splitlines()) == sorted(wanted)


def test_all_end_when_one_dies(tmp_path):
    done, seconds = launch(tmp_path, "1", "7", "60")
    assert done.returncode == 7 and seconds < 20
    assert done.stderr == "worker 1 ended with exit code 7: ending all\n"
    assert "last line" not in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no signals")
def test_all_end_when_a_scheduler_ends_the_launcher(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, LAUNCH, "--workers", "2", tmp_path / "worker.py"]
    launched = subprocess.Popen(
        [*map(str, command), "-1", "0", "60"], stdout=subprocess.PIPE, text=True
    )
    first = {launched.stdout.readline().split("]")[0] for _ in range(2)}
    assert first == {"[0", "[1"}
    began = time.perf_counter()
    launched.terminate()
    assert launched.wait(timeout=30) == 143
    assert time.perf_counter() - began < 20 and "last line" not in launched.stdout.read()


def test_a_wrong_number_of_workers_is_refused(tmp_path):
    done, _ = launch(tmp_path, workers=0)
    assert done.returncode == 2 and "--workers must be 1 or more" in done.stderr


@pytest.fixture(scope="module", params=TEMPLATES)
def project(request, tmp_path_factory):
    return bake_project(request.param, tmp_path_factory.mktemp("project"), "cluster, tpu")


@pytest.mark.slow
def test_kubernetes_accepts_its_file(project):
    documents = list(yaml.safe_load_all((project / "extras/cluster/kubernetes.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Service", "Job"]
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
    name = project.name.replace("_", "-")
    job = documents[1]["spec"]
    environment = job["template"]["spec"]["containers"][0]["env"]
    assert {entry["name"]: entry["value"] for entry in environment} == {
        "WORKERS": str(job["completions"]),
        "JOB_NAME": name,
        "SERVICE_NAME": name,
    }


@pytest.mark.parametrize("script", ["cluster/slurm.sbatch", "tpu/tpu_vm.sh"])
def test_shell_scripts_are_sound(project, script):
    done = subprocess.run(
        [SCRIPTS / "shellcheck", project / "extras" / script],
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    assert project.name in (project / "extras" / script).read_text()


# ------------------------------------------------------------ who is in the cluster


@pytest.fixture
def environment(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NUM_TASKS", "JOB_COMPLETION_INDEX", "WORKERS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


def test_without_a_cluster_a_process_stands_alone(environment):
    assert cluster.find_cluster(12345) is None
    assert (workers.worker_count(), workers.worker_number()) == (1, 0)
    assert workers.gather("a") == ["a"] and workers.broadcast("b") == "b" and workers.is_chief()
    environment("TF_CONFIG", json.dumps(ALONE))
    assert cluster.find_cluster(12345) is None


def test_tf_config_names_the_cluster(environment):
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    environment("TF_CONFIG", json.dumps(config))
    assert cluster.find_cluster(12345) == config


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "TF_CONFIG is broken"),
        ('{"cluster": {"worker": ["a:1", "b:2"]}}', "TF_CONFIG is broken .KeyError: 'task'"),
        (
            '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 2}}',
            "calls this process worker 2, but the cluster has 2 workers: number them from 0",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "ps", "index": 0}}',
            "calls this process ps 0",
        ),
    ],
)
def test_a_broken_tf_config_is_a_sentence(environment, config, sentence):
    environment("TF_CONFIG", config)
    with pytest.raises(InputError, match=sentence):
        cluster.find_cluster(12345)


def test_slurm_names_the_cluster(environment):
    environment("SLURM_STEP_NUM_TASKS", "3")
    environment("SLURM_STEP_NODELIST", "gpu[07-08,12]")
    environment("SLURM_STEP_TASKS_PER_NODE", "1(x3)")
    environment("SLURM_PROCID", "1")
    environment("CUDA_VISIBLE_DEVICES", "")
    assert cluster.find_cluster(999) == {
        "cluster": {"worker": ["gpu07:999", "gpu08:999", "gpu12:999"]},
        "task": {"type": "worker", "index": 1},
    }


def test_kubernetes_names_the_cluster(environment):
    environment("JOB_COMPLETION_INDEX", "1")
    environment("WORKERS", "2")
    with pytest.raises(InputError, match="WORKERS is set without JOB_NAME and SERVICE_NAME"):
        cluster.find_cluster(999)
    environment("JOB_NAME", "train")
    environment("SERVICE_NAME", "inside")
    assert cluster.find_cluster(999) == {
        "cluster": {"worker": ["train-0.inside:999", "train-1.inside:999"]},
        "task": {"type": "worker", "index": 1},
    }


def test_a_worker_parts_when_all_have_come_to_their_end(monkeypatch):
    """Of the last word that workers exchange none knows whether it was heard."""
    answers = []

    def gather(value):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    gone = tf.errors.UnavailableError(None, None, "connection refused")
    joined = object.__new__(cluster.ClusterWorkers)
    monkeypatch.setattr(joined, "gather", gather, raising=False)
    monkeypatch.setattr(workers, "_joined", [joined])
    answers[:] = [[None, None], gone]
    workers.wait_for_workers()
    assert not answers
    answers[:] = [gone]
    with pytest.raises(tf.errors.UnavailableError):
        workers.wait_for_workers()


def test_a_lost_worker_is_explained_and_nothing_else(monkeypatch):
    joined = object.__new__(cluster.ClusterWorkers)
    monkeypatch.setattr(joined, "number", 1, raising=False)
    sentence = joined.explain(tf.errors.UnavailableError(None, None, "connection refused"))
    assert "worker 1 lost another one" in sentence and "start them all again" in sentence
    assert joined.explain(ValueError("wrong")) is None
    assert workers.Alone().explain(tf.errors.UnavailableError(None, None, "refused")) is None
