"""extras/cluster/: processes are started, prefixed and ended together, and know who they are."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import keras
import kubernetes_validate
import pytest
import tensorflow as tf
import yaml
from conftest import ROOT
from forked_scripts import run_together
from projects import TEMPLATES, bake_project, cluster_environments, flags, run, shorten

from core.base import workers
from core.base.errors import InputError
from core.fast.compiled_model import LossMeans
from extras.cluster import cluster
from extras.cluster import launch as launching
from extras.parameter_server.server_loop import add_at_once

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


def test_ports_are_free_and_not_those_of_outgoing_connections(monkeypatch):
    first = min(launching.free_ports(3))
    assert first >= 10_000
    range_of_system = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if range_of_system.is_file():
        assert launching.PORTS[-1] < int(range_of_system.read_text().split()[0])
    with socket.socket() as held:
        held.bind(("localhost", first))
        monkeypatch.setattr(launching, "PORTS", range(first, first + 1))
        with pytest.raises(OSError, match="fewer than 1 ports"):
            launching.free_ports(1)
    assert launching.free_ports(1) == [first]


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
    assert launched.wait(timeout=300) == 143
    assert time.perf_counter() - began < 20 and "last line" not in launched.stdout.read()


LOCKED = """
import fcntl, os, sys, time
file = open(sys.argv[1] + os.environ["TF_CONFIG"][-3], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGKILL")
def test_all_end_when_the_launcher_is_killed(tmp_path):
    import fcntl

    (tmp_path / "worker.py").write_text(LOCKED)
    command = [sys.executable, LAUNCH, "--workers", "2", tmp_path / "worker.py", tmp_path / "lock"]
    launched = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    assert {launched.stdout.readline() for _ in range(2)} == {"[0] locked\n", "[1] locked\n"}
    time.sleep(0.5)  # what ends the workers is told of each once it has begun
    launched.send_signal(signal.SIGKILL)
    launched.wait()
    until = time.monotonic() + 20
    for number in range(2):
        with open(tmp_path / f"lock{number}", "w") as file:
            while True:  # a process that is gone holds no lock
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    assert time.monotonic() < until, f"worker {number} goes on"
                    time.sleep(0.1)


def test_a_wrong_number_of_workers_is_refused(tmp_path):
    done, _ = launch(tmp_path, workers=0)
    assert done.returncode == 2 and "--workers must be 1 or more" in done.stderr


@pytest.fixture(scope="module", params=TEMPLATES)
def project(request, tmp_path_factory):
    return bake_project(request.param, tmp_path_factory.mktemp("project"), "cluster, tpu")


@pytest.mark.shown("relation_extraction")
@pytest.mark.slow
def test_kubernetes_accepts_its_file(project):
    documents = list(yaml.safe_load_all((project / "extras/cluster/kubernetes.yaml").read_text()))
    kinds = ["PersistentVolumeClaim", "Service", "Job"]
    assert [document["kind"] for document in documents] == kinds
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
    name = project.name.replace("_", "-")
    claim, _, job = (document["spec"] for document in documents)
    assert claim["accessModes"] == ["ReadWriteMany"]
    pod = job["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 300
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    claimed = volumes[mounted["/project/runs"]]["persistentVolumeClaim"]["claimName"]
    assert claimed == documents[0]["metadata"]["name"]
    assert volumes[mounted["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
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


def write_tools(folder: Path, tools: dict[str, str]) -> dict[str, str]:
    """Write commands that stand for a scheduler's; return the environment that finds them."""
    folder.mkdir()
    for name, body in tools.items():
        (folder / name).write_text("#!/bin/bash\nset -eu\n" + body)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def render(script: str, path: Path) -> Path:
    """Write a script of an extra as the project `mine` has it."""
    text = (ROOT / "templates/extras" / script).read_text(encoding="utf-8")
    path.write_text(text.replace("{{ cookiecutter.project_slug }}", "mine"), encoding="utf-8")
    return path


# One machine, the folder $MACHINE: `NAME:PATH` is a path in it.
GCLOUD = """
shift 3
case $1 in
  describe) test -d "$MACHINE" ;;
  create) mkdir "$MACHINE" ;;
  ssh) cd "$MACHINE" && bash -c "${@: -1}" ;;
  scp) cp -r "${@: -2:1}" "${@: -1}" ;;
esac
"""
# scp with the names of machines made paths.
GCLOUD = GCLOUD.replace("shift 3", 'shift 3; set -- "${@/#tpu:/$MACHINE/}"')
TRAIN = """
import pathlib, sys
pathlib.Path("runs").mkdir(exist_ok=True)
with open("runs/log", "a") as log:
    print(VERSION, pathlib.Path("old.py").exists(), *sys.argv[-2:], file=log)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no bash")
def test_a_tpu_machine_trains_the_project_as_it_is_now(tmp_path):
    environment = write_tools(tmp_path / "tools", {"gcloud": GCLOUD, "pip": ""})
    environment["MACHINE"] = str(tmp_path / "machine")
    project = tmp_path / "here"
    project.mkdir()
    (project / "old.py").touch()
    script = render("tpu/tpu_vm.sh", tmp_path / "tpu_vm.sh")
    for version in ("'first'", "'second'"):
        (project / "train.py").write_text(TRAIN.replace("VERSION", version))
        command = ["bash", str(script), "tpu", "zone", "--run_name", "a b"]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (project / "old.py").unlink(missing_ok=True)
    # The second training sees the new code alone, and the runs of the first.
    log = "first True --run_name a b\nsecond False --run_name a b\n"
    assert (project / "runs/log").read_text() == log
    assert sorted(path.name for path in (tmp_path / "machine").iterdir()) == ["mine"]
    on_machine = sorted(path.name for path in (tmp_path / "machine/mine").iterdir())
    assert on_machine == ["runs", "train.py"]


# A step that ends when it is told to, or, for SECONDS=0, at once with $CODE.
SRUN = """
echo $$ > "$JOB/step"
trap 'echo saved >> "$JOB/log"; exit 0' TERM
for ((n = 0; n < SLEEPS; n++)); do sleep 0.1; done
exit $CODE
"""
SLURM = {
    "srun": SRUN,
    "scancel": 'echo "scancel $*" >> "$JOB/log"; kill -TERM "$(cat "$JOB/step")"',
    "scontrol": 'echo "scontrol $*" >> "$JOB/log"',
}


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no bash")
@pytest.mark.parametrize("time_is_up", [True, False])
def test_slurm_goes_on_when_the_time_is_up_and_only_then(tmp_path, time_is_up):
    sleeps, code = (100, 0) if time_is_up else (0, 7)
    environment = write_tools(tmp_path / "tools", SLURM) | {
        **{"JOB": str(tmp_path), "SLEEPS": str(sleeps), "CODE": str(code)},
        **{"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "5"},
    }
    script = render("cluster/slurm.sbatch", tmp_path / "slurm.sbatch")
    job = subprocess.Popen(["bash", str(script)], env=environment)
    if time_is_up:
        while not (tmp_path / "step").is_file():
            time.sleep(0.05)
        time.sleep(0.3)
        job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=300) == code
    log = (tmp_path / "log").read_text() if time_is_up else ""
    assert log == ("scancel --signal=TERM 5\nsaved\nscontrol requeue 5\n" if time_is_up else "")
    assert (tmp_path / "log").exists() == time_is_up


# ------------------------------------------------------------ who is in the cluster


@pytest.fixture
def environment(monkeypatch):
    slurm = ("NUM_TASKS", "NODELIST", "TASKS_PER_NODE")
    for name in (
        *("TF_CONFIG", "JOB_COMPLETION_INDEX", "WORKERS", "SLURM_PROCID"),
        *(f"SLURM_STEP_{name}" for name in slurm),
    ):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


def test_without_a_cluster_a_process_stands_alone(environment):
    assert cluster.find_cluster(12345) is None
    single = workers.all_workers()
    assert (single.count, single.number, single.gather("a")) == (1, 0, ["a"])
    assert workers.broadcast("b") == "b" and workers.is_chief()
    environment("TF_CONFIG", json.dumps(ALONE))
    assert cluster.find_cluster(12345) is None


def test_tf_config_names_the_cluster(environment):
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    environment("TF_CONFIG", json.dumps(config))
    assert cluster.find_cluster(12345) == config


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "TF_CONFIG is broken, because it is not valid JSON: it must hold"),
        ("[]", "because it has no .cluster., or not as an object"),
        ('{"cluster": null}', "because it has no .cluster., or not as an object"),
        ('{"cluster": {"worker": "a:1"}, "task": {}}', "has no list of addresses for .worker."),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {}}',
            "it has no .type. and .index. of the task",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "x"}}',
            "it names no worker, or an index that is no whole number",
        ),
        (
            '{"cluster": {"master": ["a:1"], "worker": ["b:2"]}, "task": {"type": "master", '
            '"index": 0}}',
            "names a master.*or set strategy = single",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:70000"]}, "task": {"type": "worker", "index": 0}}',
            "has the port 70000: ports are 1 to 65535; or set strategy = single",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:2"]}}',
            "it has no .task., or not as an object: it must hold",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 2}}',
            "calls this process worker 2, but the cluster has 2 workers: number them from 0",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "ps", "index": 0}}',
            "calls this process ps 0",
        ),
        (
            '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}',
            "it has the address 'a' without a port: it must hold",
        ),
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]}, '
            '"task": {"type": "worker", "index": 0}}',
            "names servers .ps., which only strategy = parameter_server has",
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


@pytest.mark.parametrize(("kind", "index", "place"), [("chief", 0, 0), ("worker", 1, 2)])
def test_a_chief_is_the_first_worker(environment, kind, index, place):
    """As TensorFlow's own guides write TF_CONFIG."""
    named = {"chief": ["a:1"], "worker": ["b:2", "c:3"]}
    environment("TF_CONFIG", json.dumps({"cluster": named, "task": {"type": kind, "index": index}}))
    assert cluster.find_cluster(12345) == {
        "cluster": {"worker": ["a:1", "b:2", "c:3"]},
        "task": {"type": "worker", "index": place},
    }


@pytest.fixture
def slurm(environment, monkeypatch, tmp_path):
    """Three tasks on two machines; the fake nvidia-smi lists as many cards as asked."""

    def begin(cards):
        environment("SLURM_STEP_NUM_TASKS", "3")
        environment("SLURM_STEP_NODELIST", "gpu[1-2]")
        environment("SLURM_STEP_TASKS_PER_NODE", "2,1")
        environment("SLURM_PROCID", "1")
        environment("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        environment("CUDA_VISIBLE_DEVICES", "")
        del os.environ["CUDA_VISIBLE_DEVICES"]
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "echo GPU 0: card\n" * cards)
        tool.chmod(0o755)

    return begin


@pytest.mark.parametrize(("cards", "seen"), [(0, None), (4, "2,3")])
def test_slurm_gives_each_worker_its_cards_where_there_are_any(slurm, cards, seen):
    slurm(cards)
    assert cluster.find_cluster(999) == {
        "cluster": {"worker": ["gpu1:999", "gpu1:1000", "gpu2:999"]},
        "task": {"type": "worker", "index": 1},
    }
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen


def test_workers_that_outnumber_the_cards_are_refused(slurm):
    slurm(1)
    with pytest.raises(InputError, match="2 workers on a machine with 1 GPUs: start one"):
        cluster.find_cluster(999)


def test_slurm_without_its_nodes_is_refused(environment):
    environment("SLURM_STEP_NUM_TASKS", "2")
    with pytest.raises(InputError, match="SLURM's variables name no cluster .* with srun"):
        cluster.find_cluster(999)


def test_a_port_in_use_is_a_sentence():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"worker 1 can't listen on port {port} .*in use"):
            cluster.wait_for_all(["a:1", f"localhost:{port}"], 1)


def test_a_worker_that_is_missing_is_named_until_it_comes(capsys, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS_BETWEEN_WORDS", 0.3)
    addresses = [f"localhost:{port}" for port in cluster_ports(2)]
    waiting = threading.Thread(target=cluster.wait_for_all, args=(addresses, 0), daemon=True)
    waiting.start()
    time.sleep(1)
    assert waiting.is_alive()
    said = capsys.readouterr().out.splitlines()
    assert set(said) == {f"waiting for 1 of 2 workers: worker 1 at {addresses[1]}"}
    assert 2 <= len(said) <= 3
    with socket.create_server(("", int(addresses[1].rpartition(":")[2]))):
        waiting.join(timeout=300)
    assert not waiting.is_alive()


def cluster_ports(count: int) -> list[int]:
    config = json.loads(cluster_environments(count)[0]["TF_CONFIG"])
    return [int(address.rpartition(":")[2]) for address in config["cluster"]["worker"]]


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


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"SLURM_STEP_NUM_TASKS": "many"}, "SLURM_STEP_NUM_TASKS is 'many' instead of a whole"),
        ({"JOB_COMPLETION_INDEX": "x", "WORKERS": "2"}, "JOB_COMPLETION_INDEX is 'x' instead of"),
        ({"JOB_COMPLETION_INDEX": "1", "WORKERS": "2.5"}, "WORKERS is '2.5' instead of a whole"),
        ({"JOB_COMPLETION_INDEX": "2", "WORKERS": "2"}, "JOB_COMPLETION_INDEX is 2, but WORKERS"),
    ],
)
def test_numbers_of_a_scheduler_that_are_none_are_a_sentence(environment, variables, sentence):
    for name, value in {"JOB_NAME": "train", "SERVICE_NAME": "inside", **variables}.items():
        environment(name, value)
    with pytest.raises(InputError, match=f"{sentence}.*or set strategy = single"):
        cluster.find_cluster(999)


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
    monkeypatch.setattr(workers, "_workers", joined)
    answers[:] = [[None, None], gone]
    workers.all_workers().close()
    assert not answers
    answers[:] = [gone]
    with pytest.raises(tf.errors.UnavailableError):
        workers.all_workers().close()


def test_a_lost_worker_is_explained_and_nothing_else(monkeypatch):
    joined = object.__new__(cluster.ClusterWorkers)
    monkeypatch.setattr(joined, "number", 1, raising=False)
    sentence = joined.explain(tf.errors.UnavailableError(None, None, "connection refused"))
    assert "worker 1 lost another one" in sentence and "start them all again" in sentence
    assert joined.explain(ValueError("wrong")) is None
    assert workers.OneProcess().explain(tf.errors.UnavailableError(None, None, "refused")) is None


# ------------------------------------------------------------ workers that differ


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory) -> list[Path]:
    """Two copies of one project."""
    first = bake_project("relation_extraction", tmp_path_factory.mktemp("first"), "cluster")
    shorten(first, {"train": 40, "dev": 9})
    (first / "encoder").mkdir()
    (first / "encoder/tokenizer.json").write_text('{"one": 1}', encoding="utf-8")
    second = tmp_path_factory.mktemp("second") / first.name
    shutil.copytree(first, second)
    return [first, second]


def permute(project: Path) -> None:
    path = project / "sample" / "train.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[::-1]), encoding="utf-8", newline="\n")


def edit_code(project: Path) -> None:
    path = project / "task" / "model.py"
    path.write_text(path.read_text(encoding="utf-8") + "\nOTHER = 1\n", encoding="utf-8")


def edit_encoder(project: Path) -> None:
    (project / "encoder/tokenizer.json").write_text('{"other": 1}', encoding="utf-8")


DIFFERENCES = {
    "setting": ({"learning_rate": 0.5}, None, "worker 1 has learning_rate = 0.5, and worker 0"),
    "run": ({"run_name": "b"}, None, "worker 1 has run_name = 'b', and worker 0 has 'differ'"),
    "order": ({}, permute, "worker 1 has another content of train_file ('sample/train.jsonl')"),
    "code": ({}, edit_code, "worker 1 has another content of task/model.py"),
    "tokenizer": ({}, edit_encoder, "worker 1 has another content of encoder ('encoder')"),
    "devices": ({"devices.logical_devices": 2}, None, "the same devices.logical_devices"),
}


@pytest.mark.shown("setting", "order")
@pytest.mark.trains
@pytest.mark.parametrize("name", DIFFERENCES)
def test_workers_that_differ_end_before_the_first_step(two_machines, tmp_path, name):
    settings, change, sentence = DIFFERENCES[name]
    first, second = two_machines
    if change:
        second = shutil.copytree(second, tmp_path / second.name)
        change(second)
    asked = {"run_name": "differ", "epochs": 1, "strategy": "multi_worker"}
    asked |= {"encoder": "encoder"} if name == "tokenizer" else {}
    commands = [
        (["train.py", *flags(project, **{**asked, **own})], project, environment)
        for project, own, environment in zip(
            (first, second), ({}, settings), cluster_environments(2), strict=True
        )
    ]
    for done in run_together(commands):
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert sentence in done.stderr.splitlines()[-1], done.stderr
    assert not any((project / "runs").exists() for project in (first, second))


def test_a_model_of_the_hub_is_compared_by_its_commit(monkeypatch):
    """Its folder is named after it, on each machine in the cache of its user."""
    monkeypatch.setattr(cluster, "download", {"owner/model": Path("snapshots/5fc1")}.__getitem__)
    assert cluster.content_of("hf://owner/model") == "5fc1"


def test_what_may_differ_between_workers():
    part = cluster.Part
    same = {"test_file": part("'a'", "1"), "epochs": part("2")}
    assert cluster.compare(same, 1, dict(same)) is None
    # A path is compared by what it leads to, where both workers have it.
    moved = {**same, "test_file": part("'b'", "1")}
    assert cluster.compare(same, 1, moved) is None
    assert cluster.compare(same, 1, {**same, "test_file": part("'a'")}) is None
    changed = cluster.compare(same, 1, {**same, "test_file": part("'a'", "2")})
    assert changed == "worker 1 has another content of test_file ('a') than worker 0"
    assert "test_file = 'b'" in cluster.compare(same, 1, {**same, "test_file": part("'b'")})
    assert "epochs = absent" in cluster.compare(same, 2, {"test_file": same["test_file"]})


# ----------------------------------------------------- parameter servers


STEPS = 7  # an epoch: 101 examples in batches of 16


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = bake_project("text_classification", tmp_path_factory.mktemp("served"))
    shorten(served, {"train": 101, "dev": 12})
    return served


def test_no_step_and_no_loss_is_lost_between_two_workers():
    optimizer, means = keras.optimizers.SGD(0.0), LossMeans(["loss"])
    weight = keras.Variable([0.0])
    optimizer.build([weight])
    add_at_once([optimizer.iterations, *means.variables])

    @tf.function
    def update() -> None:
        optimizer.apply([tf.constant([1.0])], [weight])
        means.update_state({"loss": tf.constant([3.0, 1.0])}, tf.constant([1.0, 1.0]))

    writes = {
        operation.type
        for operation in update.get_concrete_function().graph.get_operations()
        if "Assign" in operation.type
    }
    # None writes what was read before: another worker may have added meanwhile.
    assert writes == {"AssignAddVariableOp", "AssignSubVariableOp"}
    update()
    assert (int(optimizer.iterations), float(means.result()["loss"])) == (1, 2.0)


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_training_goes_on_when_a_worker_is_killed(served, tmp_path):
    asked = flags(served, strategy="parameter_server", run_name="servers", epochs=4, batch_size=16)
    launch = ["extras/cluster/launch.py", "--workers", "2", "--servers", "1"]
    output, metrics = tmp_path / "output.txt", served / "runs/servers/metrics.jsonl"
    with open(output, "w") as file:
        launched = subprocess.Popen(
            [sys.executable, *launch, "train.py", *asked],
            cwd=served,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    while not metrics.is_file() and launched.poll() is None:
        time.sleep(0.05)
    victim = re.search(r"worker 1 is process (\d+) and waits", output.read_text())
    assert victim, output.read_text()
    os.kill(int(victim[1]), signal.SIGKILL)
    code = launched.wait(timeout=300)
    out = output.read_text()
    assert code == 0, out
    assert "worker 1 ended with exit code 137: starting it again" in out
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows] == [STEPS, 2 * STEPS, 3 * STEPS, 4 * STEPS]
    assert rows[-1]["loss"] < 0.9 * rows[0]["loss"]
    assert "finished" in json.loads((served / "runs/servers/scores.json").read_text("utf-8"))
    run("predict.py", "servers", "sample/dev.jsonl", "out.jsonl", cwd=served)


def test_without_servers_the_strategy_explains_itself(served):
    asked = flags(served, strategy="parameter_server", run_name="alone")
    done = run("train.py", *asked, cwd=served, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        "set TF_CONFIG on each machine, or use --servers 1 of extras/cluster/launch.py"
        in done.stderr
    )
    assert not (served / "runs" / "alone").exists()
