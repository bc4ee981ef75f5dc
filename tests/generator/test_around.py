"""What a project has around it: lock file, .gitignore, container, pre-commit, notebook."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from forked_scripts import run_forked
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from projects import ENVIRONMENT, TEMPLATES, bake_project, flags

from generator.bake import MADE_BY_RUNS
from generator.files import list_files

SHARED = ROOT / "templates/shared"
CONTAINER = SHARED / ".devcontainer"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read_requirements(path: Path) -> list[Requirement]:
    """Return the requirements of a file as pip reads them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


LOCKED = {
    canonicalize_name(one.name): one for one in read_requirements(SHARED / "requirements.lock")
}


def locked_version(name: str) -> str:
    """Return the one version of a package in the lock file."""
    [bound] = LOCKED[canonicalize_name(name)].specifier
    assert bound.operator == "=="
    return bound.version


# ------------------------------------------------------------------------------ versions


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_lock_file_has_what_a_project_needs(template: str) -> None:
    [path] = (ROOT / "templates" / template).glob("*/requirements.txt")
    for needed in read_requirements(path):
        assert locked_version(needed.name) in needed.specifier, needed


def test_the_lock_file_goes_with_the_requirements_of_extras() -> None:
    paths = [*ROOT.glob("templates/extras/*/requirements.txt")]
    paths += ROOT.glob("templates/*/*/requirements-*.txt")
    assert len(paths) > 5
    for needed in (one for path in paths for one in read_requirements(path)):
        if canonicalize_name(needed.name) in LOCKED:
            assert locked_version(needed.name) in needed.specifier, needed


def test_the_lock_file_goes_with_the_tests_of_this_repository() -> None:
    for line in PYPROJECT["project"]["optional-dependencies"]["train"]:
        needed = Requirement(line)
        if needed.name != "matplotlib":  # Draws the benchmarks.
            assert locked_version(needed.name) in needed.specifier, needed


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_reference_was_scored_with_the_versions_of_the_lock_file(template: str) -> None:
    path = ROOT / "baselines" / f"{template}_sample" / "reference/scores.json"
    versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
    python = versions.pop("python")
    assert {"tensorflow", "keras", "numpy"} <= versions.keys()
    assert {name: locked_version(name) for name in versions} == versions
    image = re.search(r"^FROM python:([\d.]+)-", (CONTAINER / "Dockerfile").read_text(), flags=re.M)
    assert python.startswith(f"{image[1]}.")


def test_the_lock_file_says_from_nowhere_that_packages_come() -> None:
    text = (SHARED / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"//|--", text)
    assert all(one.url is None and not one.extras for one in LOCKED.values())


# --------------------------------------------------------------------------------- files


@pytest.mark.parametrize("template", TEMPLATES)
def test_git_ignores_what_runs_make_and_nothing_else(template: str, tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    project = bake_project(template, tmp_path)
    own = {path.as_posix() for path in list_files(project)}
    made = [f"{name}/{file}" for name in (*MADE_BY_RUNS, "cache", "data") for file in ("a", "b/c")]
    for name in made:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    words = ["git", "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=project, capture_output=True, text=True, check=True)
    assert {*listed.stdout.splitlines()} == own
    assert {"core/data/tokens.py", "core/runs/run.py", ".gitignore"} <= own


def test_git_knows_the_folder_of_the_cache() -> None:
    table = tomllib.loads((ROOT / "templates/extras/cache/config.toml").read_text(encoding="utf-8"))
    assert f"/{table['cache']['folder']}/" in (SHARED / ".gitignore").read_text().splitlines()


def test_the_container_gets_what_it_copies() -> None:
    settings = json.loads((CONTAINER / "devcontainer.json").read_text(encoding="utf-8"))
    file = CONTAINER / settings["build"]["dockerfile"]
    assert (CONTAINER / settings["build"]["context"]).resolve() == SHARED
    text = file.read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (.+) \./$", text, flags=re.M)[0].split()
    [template, *_] = (ROOT / "templates/relation_extraction").glob("*/requirements.txt")
    assert all((SHARED / name).is_file() or (template.parent / name).is_file() for name in copied)
    assert re.search(r"pip install .*-r requirements.txt -c requirements.lock", text)


def test_pre_commit_runs_the_ruff_of_this_repository() -> None:
    text = (SHARED / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    versions = set(re.findall(r"ruff==([\d.]+)", text))
    [bound] = [
        Requirement(line).specifier
        for line in PYPROJECT["project"]["optional-dependencies"]["dev"]
        if line.startswith("ruff")
    ]
    assert len(versions) == 1 and versions.pop() in bound


@pytest.mark.parametrize("template", TEMPLATES)
def test_pre_commit_changes_nothing_in_a_fresh_project(template: str, tmp_path: Path) -> None:
    project = bake_project(template, tmp_path)
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--no-cache", "."],
            cwd=project,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("readme", ["README.md", "README_zh.md"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_readme_says_what_these_files_are_for(template: str, readme: str) -> None:
    [path] = (ROOT / "templates" / template).glob(f"*/{readme}")
    text = path.read_text(encoding="utf-8")
    assert "`pip install -r requirements.txt -c requirements.lock`" in text
    for name in (".devcontainer/", "kaggle.ipynb", "pre-commit install"):
        assert f"`{name}`" in text


# ------------------------------------------------------------------------------ notebook


def read_cells() -> list[str]:
    """Return the code of the notebook's cells."""
    notebook = json.loads((SHARED / "kaggle.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert all(cell["id"] and isinstance(cell["metadata"], dict) for cell in notebook["cells"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


# The cells call scripts by `subprocess.run`: these are forks of one that has imported TensorFlow.
IN_FORKS = """
import multiprocessing, os, subprocess, sys, tempfile
TESTS = sys.argv[1]

def run_in_fork(words, check, run=subprocess.run):
    if not words[1].endswith(".py"):
        return run(words, check=check)
    sys.path.append(TESTS)
    from forked_scripts import become
    assert words[0] == sys.executable and check
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("out", "err")]
        own = (words[1:], os.getcwd(), {}, paths)
        child = multiprocessing.get_context("fork").Process(target=become, args=own)
        child.start()
        child.join()
        assert child.exitcode == 0, "".join(open(path).read() for path in paths)

subprocess.run = run_in_fork
"""


@pytest.mark.shown("pretraining")
@pytest.mark.trains
@pytest.mark.parametrize("template", ["relation_extraction", "pretraining"])
def test_the_notebook_trains_and_predicts(template: str, tmp_path: Path) -> None:
    project = bake_project(template, tmp_path / "attached", extras="none")
    for path in (project / "sample").iterdir():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:24]), encoding="utf-8", newline="\n")
    answers, *cells = read_cells()
    names = re.findall(r"^([A-Z]+) = ", answers, flags=re.M)
    given = {"PROJECT": str(project), "FLAGS": flags(project, steps=2, batch_size=4)}
    assert names == [*given]
    code = "\n".join([IN_FORKS, f"PROJECT, FLAGS = {tuple(given.values())!r}", *cells])
    # pip only looks whether all is there, and no GPU is looked for.
    (tmp_path / "cells.py").write_text(code.replace('shutil.which("nvidia-smi")', "None"), "utf-8")
    (tmp_path / "working").mkdir()
    command = [str(tmp_path / "cells.py"), str(ROOT / "tests")]
    [done] = run_forked(command, tmp_path / "working", [{**ENVIRONMENT, "PIP_DRY_RUN": "1"}])
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (tmp_path / "working").iterdir()}
    assert made == {"project", "my_encoder" if template == "pretraining" else "submission.jsonl"}
    assert (tmp_path / "working/project/runs/default/report.html").is_file()
    assert not (project / "runs").exists()


# ------------------------------------------------------------------------- supported Python


def test_every_supported_python_is_tested() -> None:
    classifiers = " ".join(PYPROJECT["project"]["classifiers"])
    known = re.findall(r":: Python :: (3\.\d+)", classifiers)
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    lists = re.findall(r"python: \[(.+)\]", workflow)
    assert len(lists) == 2 and {*lists} == {", ".join(f'"{one}"' for one in known)}
    lowest = SpecifierSet(PYPROJECT["project"]["requires-python"])
    assert all(one in lowest for one in known)
