"""extras/cluster on a real SLURM: the weights of one process, also after its time was up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clusters import needs_slurm, slurm_cluster, wait_until
from projects import ENVIRONMENT, bake_project, flags, run, shorten

from extras.cluster.launch import free_ports

pytestmark = [needs_slurm, pytest.mark.trains, pytest.mark.slow]

# Two tasks of one node that has no GPU, in place of the two nodes that the script asks for.
ONE_NODE = ("--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=0", "--cpus-per-task=1")
EPOCHS = 5
TOLERANCE = 1e-4  # of losses that are sums over a batch


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    made = bake_project("relation_extraction", tmp_path_factory.mktemp("project"), "cluster")
    shorten(made, {"train": 96, "dev": 16, "test": 16})
    run(made / "train.py", *settings(made, "one"), "--strategy", "single", cwd=made)
    return made


def settings(project: Path, name: str) -> list[str]:
    """Return the flags of a training."""
    port = {"cluster.port": free_ports(1)[0]}
    return flags(project, run_name=name, epochs=EPOCHS, batch_size=2, **port)


def losses(project: Path, name: str) -> list[float]:
    """Return the losses of all epochs of a run, each epoch once."""
    lines = (project / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["epoch"] for row in rows] == [*range(1, EPOCHS + 1)]
    return [row["loss"] for row in rows]


def submit(project: Path, environment: dict[str, str], name: str) -> str:
    """Submit the script of the extra; return the number of the job."""
    script = project / "extras/cluster/slurm.sbatch"
    command = ["sbatch", "--parsable", *ONE_NODE, str(script), *settings(project, name)]
    return ask(command, project, environment)


def ask(command: list[str], project: Path, environment: dict[str, str]) -> str:
    """Return what a command of SLURM prints."""
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_jobs_of_slurm_train_as_one_process(project, tmp_path_factory):
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as own:
        path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        environment = {**own, **ENVIRONMENT, "PATH": path}

        def state(job: str) -> str:
            command = ["scontrol", "--oneliner", "show", "job", job]
            return ask(command, project, environment)

        def log(job: str) -> str:
            path = project / f"{project.name}-{job}.log"
            return path.read_text(encoding="utf-8") if path.is_file() else ""

        straight = submit(project, environment, "straight")
        wait_until(lambda: "JobState=COMPLETED" in state(straight), "the first job")
        cut = submit(project, environment, "cut")
        wait_until(lambda: "Epoch 2/" in log(cut), "the second epoch of the second job")
        # What SLURM sends to the script five minutes before the time is up.
        ask(["scancel", "--batch", "--signal=USR1", cut], project, environment)
        wait_until(lambda: "Restarts=1 " in state(cut), "the second job is queued again")
        assert "told to end: all is saved" in log(cut)
        # SLURM waits two minutes before it starts such a job.
        ask(["scontrol", "update", f"jobid={cut}", "StartTime=now"], project, environment)
        wait_until(lambda: "JobState=COMPLETED" in state(cut), "the second job")
    expected = pytest.approx(losses(project, "one"), abs=TOLERANCE)
    assert losses(project, "straight") == expected
    assert losses(project, "cut") == expected
