"""Run scripts in forks of one process that has imported TensorFlow: each import takes seconds."""

import io
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

# What projects import of others; none of it starts a thread that a fork would miss.
IMPORTED = ["tensorflow", "keras_hub", "sklearn.linear_model", "matplotlib.pyplot", "sacrebleu"]


def run_forked(
    arguments: list[str], cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess:
    """Run a script as `python script arguments` would.

    Args:
        arguments: the script and what follows it.
        cwd: where it runs.
        environment: what is added to that of the tests.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        script = context.Process(target=become, args=(arguments, str(cwd), environment, paths))
        script.start()
        script.join()
        out, err = (Path(p).read_text(encoding="utf-8", errors="replace") for p in paths)
    return subprocess.CompletedProcess(arguments, script.exitcode, out, err)


def become(arguments: list[str], cwd: str, environment: dict[str, str], paths: list[str]) -> None:
    """Make this fork what a new Python would be, and run the script."""
    for number, path in enumerate(paths, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, "wb", closefd=False), "utf-8", write_through=True)
        for number in (1, 2)
    )
    os.chdir(cwd)
    os.environ.update(environment)
    sys.dont_write_bytecode = True
    sys.argv = arguments
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [os.path.dirname(os.path.abspath(arguments[0])), *installed]
    runpy.run_path(arguments[0], run_name="__main__")
