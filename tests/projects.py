"""Bake projects for the tests, and run their scripts in processes of their own."""

import atexit
import functools
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import ROOT
from forked_scripts import run_forked

from extras.cluster.launch import free_ports
from generator.bake import bake

TEMPLATES = sorted(path.parent.name for path in ROOT.glob("templates/*/cookiecutter.json"))
# What each task brings to the tests of all: its records, its settings, what can be wrong with both.
CASES = {name: importlib.import_module(f"cases.{name}") for name in TEMPLATES}
# Those that learn from records, and predict them.
TASKS = [name for name in TEMPLATES if hasattr(CASES[name], "RECORD")]

HAS_ORBIT = importlib.util.find_spec("orbit") is not None
NO_ORBIT = "Orbit is absent: pip install --no-deps -r templates/extras/orbit/requirements.txt"

# A model that trains in seconds.
SMALL = {
    "tiny_layers": 1,
    "tiny_width": 32,
    "tiny_vocabulary": 300,
    "max_length": 64,
    "buckets": 2,
    "shown_examples": 0,
    # The numbers are the same on processors with AMX and without.
    "devices.precision": "float32",
}


def further(names: Iterable[str], *shown: str) -> list:
    """Return parameters of a test that shows the same of each: `make test` takes some of them.

    Args:
        names: all that `make whole` takes.
        *shown: those that `make test` takes.
    """
    assert {*shown} <= {*names}
    return [n if n in shown else pytest.param(n, marks=pytest.mark.further) for n in names]


def bake_project(template: str, parent: Path, extras: str = "all") -> Path:
    """Return a project with the default answers but for its extras: names, `all` or `none`."""
    original = baked(template, extras)
    return Path(shutil.copytree(original, parent / original.name))


@functools.cache
def baked(template: str, extras: str) -> Path:
    """Return a project that tests copy: a second of Jinja for each that asks for the same."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return bake(ROOT / "templates" / template, Path(folder), {"extras": extras})


def shorten(project: Path, records: dict[str, int]) -> None:
    """Keep the first lines of the sample's files, by the stem of their names; prepare them."""
    for stem, count in records.items():
        [path] = (project / "sample").glob(f"{stem}.*")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:count]), encoding="utf-8", newline="\n")
    prepare(project, *flags(project))


def prepare(project: Path, *arguments: str) -> None:
    """Do what comes before a training, where there is something."""
    script = getattr(CASES[template_of(project)], "PREPARATION", None)
    if script:
        run(project / script, *arguments, cwd=project)


# All of check.py but for the model, which takes most of its time whatever the records are.
CHECK_RECORDS = """
import runpy
from extras.doctor import checking
checking.check_model = lambda *arguments: []
runpy.run_path("check.py", run_name="__main__")
"""


def check_records(project: Path) -> str:
    """Return the name of a script of a project that checks records as check.py does."""
    script = project / "check_records.py"
    script.write_text(CHECK_RECORDS, encoding="utf-8")
    return script.name


def template_of(project: Path) -> str:
    """Return the template of a project that was baked with the default answers."""
    return project.name.removesuffix("_project")


def flags(project: Path, **settings) -> list[str]:
    """Return settings as flags of a command line, those of a small model where none is given.

    None leaves a setting as it is.
    """
    small = {**SMALL, **CASES[template_of(project)].SMALL}
    return [
        part
        for name, value in {**small, **settings}.items()
        if value is not None
        for part in (f"--{name}", str(value).lower() if isinstance(value, bool) else str(value))
    ]


# The numbers are those of a CPU, on every machine.
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(
    *arguments, cwd: Path, check: bool = True, anew: bool = False
) -> subprocess.CompletedProcess:
    """Run Python with some arguments; its output is captured.

    Args:
        *arguments: a script and what follows it.
        cwd: where it runs.
        check: fail the test, and show the output, unless the exit code is 0.
        anew: start an interpreter, with a hash seed of its own, and import all again.
    """
    words = [str(argument) for argument in arguments]
    if anew:
        result = subprocess.run(
            [sys.executable, *words],
            cwd=cwd,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    else:
        # The process that forks has the environment of the moment in which it started.
        [result] = run_forked(words, cwd, [{**os.environ, **ENVIRONMENT}])
    assert not check or result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result


def run_workers(
    workers: int, *arguments, cwd: Path, check: bool = True
) -> list[subprocess.CompletedProcess]:
    """Run Python in each worker of a cluster, as launch.py would.

    Args:
        workers: of the cluster.
        *arguments: a script and what follows it.
        cwd: where they run.
        check: fail the test, and show the output, unless all exit codes are 0.
    """
    words = [str(argument) for argument in arguments]
    results = run_forked(words, cwd, cluster_environments(workers))
    if check and any(result.returncode for result in results):
        # The first error is often that of another worker than the first.
        ends = [(n.returncode, n.stdout[-4000:], n.stderr[-4000:]) for n in reversed(results)]
        pytest.fail(
            "\n".join(f"worker ended with {code}:\n{out}\n{err}" for code, out, err in ends)
        )
    return results


def cluster_environments(workers: int) -> list[dict[str, str]]:
    """Return what the workers of a cluster on this machine find in their environment."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(workers)]}
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [
        {**ENVIRONMENT, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        for task in tasks
    ]
