"""Clusters of several processes of this machine, for tests that need a real scheduler."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from extras.cluster.launch import free_ports

PATIENCE_SECONDS = 300.0  # until a daemon answers, on a machine that is busy
DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"

needs_dask = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("apache_beam", "distributed")),
    reason='Apache Beam on Dask is absent: pip install "apache-beam[dask]"',
)
needs_slurm = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("sbatch", "slurmctld", "slurmd", "munged"))
    or os.geteuid() != 0,
    reason="SLURM is absent, or this is not root: apt-get install slurm-wlm munge",
)


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Wait until something has happened; fail with its name if it does not."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < until, f"not within {PATIENCE_SECONDS:.0f} s: {what}"
        time.sleep(0.1)


@contextlib.contextmanager
def daemons(folder: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Give a function that starts a process, with its output in a file; all end with the block."""
    started: list[subprocess.Popen] = []

    def start(*command: str, **environment: str) -> subprocess.Popen:
        with (folder / f"{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**os.environ, **environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
        return started[-1]

    try:
        yield start
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# --- Dask ---


@dataclass
class DaskCluster:
    """A scheduler of Dask and its worker processes.

    Attributes:
        file: where the scheduler tells its address.
        killed: the ids of the worker processes that were killed.
    """

    file: Path
    killed: list[int]

    @property
    def options(self) -> list[str]:
        """Of Beam: run here, an element of the pipeline at a time."""
        return [
            f"--runner={DASK_RUNNER}",
            f"--dask_scheduler_file={self.file}",
            "--dask_partition_size=1",
        ]

    def processes(self) -> list[int]:
        """Return the ids of the worker processes."""
        from distributed import Client

        with Client(scheduler_file=str(self.file)) as client:
            return sorted(client.run(os.getpid).values())

    def kill_when(self, happened: Callable[[], object]) -> threading.Thread:
        """Start a thread that kills a worker process as soon as something has happened."""
        victim = self.processes()[0]

        def kill() -> None:
            until = time.monotonic() + PATIENCE_SECONDS
            while not happened():
                if time.monotonic() > until:
                    return
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            self.killed.append(victim)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        return thread


@contextlib.contextmanager
def dask_cluster(folder: Path, path: Sequence[Path], workers: int = 3) -> Iterator[DaskCluster]:
    """Run Dask on this machine; its workers import what lies in `path`."""
    cluster = DaskCluster(folder / "scheduler.json", [])
    port = free_ports(1)[0]
    with daemons(folder) as start:
        own = {"PYTHONPATH": os.pathsep.join(map(str, path)), "OMP_NUM_THREADS": "1"}
        host = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(cluster.file))
        module = (sys.executable, "-m")
        start(*module, "distributed.cli.dask_scheduler", "--port", str(port), *host, **own)
        wait_until(cluster.file.is_file, "Dask's scheduler")
        count = ("--nworkers", str(workers), "--nthreads", "1")
        start(*module, "distributed.cli.dask_worker", *count, *host, **own)
        wait_until(lambda: len(cluster.processes()) == workers, "Dask's workers")
        yield cluster


# --- SLURM ---

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Run SLURM on this machine, one node that has no GPU; give the environment of its commands."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    text = SLURM_CONF.format(host=host, folder=folder, ports=free_ports(2))
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    own = {"SLURM_CONF": str(folder / "slurm.conf")}
    munge = {name: folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
    with daemons(folder) as start:
        start(
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={munge['socket']}", f"--pid-file={munge['pid']}"),
            *(f"--log-file={munge['log']}", f"--seed-file={munge['seed']}"),
        )
        wait_until(munge["socket"].exists, "munged")
        start("slurmctld", "-D", **own)
        start("slurmd", "-D", **own)
        environment = {**os.environ, **own}

        def idle() -> bool:
            states = ["sinfo", "--noheader", "--format=%t"]
            done = subprocess.run(states, env=environment, capture_output=True, text=True)
            return done.stdout.strip() == "idle"

        wait_until(idle, "SLURM's node")
        yield environment
