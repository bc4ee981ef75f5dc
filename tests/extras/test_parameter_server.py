"""Parameter servers on this machine: a chief, two workers, one server; one worker is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from projects import bake_project, flags, run, shorten

STEPS = 7  # an epoch: 101 examples in batches of 16


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = bake_project("relation_extraction", tmp_path_factory.mktemp("project"))
    shorten(project, {"train": 101, "dev": 12})
    return project


@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_training_goes_on_when_a_worker_is_killed(project, tmp_path):
    asked = flags(project, strategy="parameter_server", run_name="servers", epochs=4, batch_size=16)
    launch = ["extras/cluster/launch.py", "--workers", "2", "--servers", "1"]
    output, metrics = tmp_path / "output.txt", project / "runs/servers/metrics.jsonl"
    with open(output, "w") as file:
        launched = subprocess.Popen(
            [sys.executable, *launch, "train.py", *asked],
            cwd=project,
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
    assert "finished" in json.loads((project / "runs/servers/scores.json").read_text("utf-8"))
    run("predict.py", "servers", "sample/dev.jsonl", "out.jsonl", cwd=project)


def test_without_servers_the_strategy_explains_itself(project):
    asked = flags(project, strategy="parameter_server", run_name="alone")
    done = run("train.py", *asked, cwd=project, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        "set TF_CONFIG on each machine, or use --servers 1 of extras/cluster/launch.py"
        in done.stderr
    )
    assert not (project / "runs" / "alone").exists()
