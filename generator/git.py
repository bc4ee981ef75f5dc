"""Git, as a command."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from generator import InputError


def run_git(
    *command: str | Path, users_own: bool = False, **paths: Path
) -> subprocess.CompletedProcess[bytes]:
    """Run git.

    Args:
        command: the words after `git`.
        users_own: with the user's configuration, which may hold the way to a remote repository;
            a merge is the same for everyone.
        paths: of the environment, such as `GIT_DIR`.

    Raises:
        InputError: git is absent.
    """
    if not shutil.which("git"):
        raise InputError("git is needed, and it is not installed: install git 2.38 or newer.")
    # Those of a hook of git would name the repository that runs it.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    if not users_own:
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environment |= {name: str(path) for name, path in paths.items()}
    return subprocess.run(["git", *map(str, command)], capture_output=True, env=environment)


def git(*command: str | Path, users_own: bool = False, **paths: Path) -> bytes:
    """Return what git prints; `run_git` says what goes in.

    Raises:
        InputError: it fails.
    """
    done = run_git(*command, users_own=users_own, **paths)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise InputError(f"git {name_of(command)} failed: {said[-1]}")
    return done.stdout


def name_of(command: Sequence[str | Path]) -> str:
    """Return the subcommand: the first word that is no option, and no value of `-C` or `-c`.

    >>> name_of(("-C", "folder", "-c", "core.autocrlf=false", "archive", "HEAD"))
    'archive'
    """
    before = ("", *command)
    found = (
        str(word)
        for last, word in zip(before, command, strict=False)
        if last not in ("-C", "-c") and not str(word).startswith("-")
    )
    return next(found)
