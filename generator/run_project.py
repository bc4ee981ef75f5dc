"""Run the scripts of a project and load its hash of the code."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from generator.errors import InputError


def run_script(project: Path, *arguments: str, quiet: bool = False) -> None:
    """Run one of a project's scripts, in the project's folder.

    Args:
        project: the project's folder.
        arguments: the script and what follows it on the command line.
        quiet: show the output only when the script fails.

    Raises:
        InputError: the script failed.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
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
            f"`python {' '.join(arguments)}` in {project.name} ended with exit code"
            f" {result.returncode}: see its output above."
        )


def project_code_hash(project: Path) -> str:
    """Return the hash of a project's code, computed by the project itself."""
    path = project / "common" / "code_hash.py"
    specification = importlib.util.spec_from_file_location("project_code_hash", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.code_hash(project)
