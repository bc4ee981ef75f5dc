"""Run the scripts of a project, read their results, load its code hash."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from generator import InputError
from generator.files import read_json

# Some projects run this before training; it keeps what exists already.
PREPARATION = "prepare.py"
# Runs each command like `python script arguments`, and reports which one failed.
RUN_ALL = """
import json, runpy, sys
for command in json.loads(sys.argv[1]):
    sys.argv = command
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ending:
        if ending.code:
            raise
    except BaseException:
        print("in", *command, file=sys.stderr)
        raise
"""


def run_script(project: Path, *arguments: str) -> None:
    """Run one of a project's scripts in the project's folder, and show its output.

    Args:
        project: the project's folder.
        arguments: the script and its arguments.

    Raises:
        InputError: the script failed.
    """
    run_python(project, [*arguments], " ".join(arguments))


def run_scripts(project: Path, commands: list[list[str]]) -> None:
    """Run several scripts of a project in one process, because importing TensorFlow is slow.

    Args:
        project: the project's folder.
        commands: each is a script with its arguments; output is shown only if one fails.

    Raises:
        InputError: a script failed.
    """
    names = ", ".join(command[0] for command in commands)
    run_python(project, ["-c", RUN_ALL, json.dumps(commands)], names, quiet=True)


def run_python(project: Path, arguments: list[str], what: str, quiet: bool = False) -> None:
    """Run Python in a project's folder; a failure becomes one sentence."""
    # With -c Python searches modules in the current folder, with a script in the script's folder.
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=project_environment(),
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if result.returncode:
        if result.stdout:
            print(result.stdout, file=sys.stderr)
        raise InputError(
            f"`python {what}` in {project.name} ended with exit code {result.returncode}: see its"
            " output above."
        )


def project_environment() -> dict[str, str]:
    """Return the environment variables for a project's scripts."""
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def run_folder(project: Path, name: str) -> Path:
    """Return the folder of a run."""
    return project / "runs" / name


def read_scores(folder: Path) -> dict:
    """Return the scores of a run by file, such as dev; empty if there are none yet."""
    path = folder / "scores.json"
    scores = read_json(path) if path.is_file() else {}
    return {**scores.pop("files", {}), **scores}


def project_code_hash(project: Path) -> str:
    """Return the hash of a project's code, computed by the project itself."""
    path = project / "core" / "runs" / "code_hash.py"
    specification = importlib.util.spec_from_file_location("project_code_hash", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.code_hash(project)
