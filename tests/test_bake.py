"""Baking: four ways of calling cookiecutter, one project; bad answers leave nothing behind."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from projects import TEMPLATES, template_of

from generator.bake import LEFTOVERS, bake
from generator.errors import InputError

# The first of the menu: what is the same for all templates is tested with it alone.
TEMPLATE = "templates/relation_extraction"
SLUG = "relation_extraction_project"


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A copy of what cookiecutter reads, as a clone would have it."""
    folder = tmp_path_factory.mktemp("clone") / "repository"
    shutil.copytree(
        ROOT / "templates", folder / "templates", ignore=shutil.ignore_patterns(*LEFTOVERS)
    )
    shutil.copy(ROOT / "cookiecutter.json", folder)
    return folder


@pytest.fixture(scope="module", params=TEMPLATES)
def project(request, repository: Path, tmp_path_factory) -> Path:
    """A project baked with the default answers."""
    return bake(repository / "templates" / request.param, tmp_path_factory.mktemp("baked"))


def run_cookiecutter(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """Call cookiecutter as a user does, with a home folder of its own."""
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "cookiecutter", "--no-input", *arguments],
        cwd=cwd,
        env={
            **os.environ,
            "HOME": str(home),
            "USERPROFILE": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not set(path.parts) & set(LEFTOVERS)
    }


@pytest.mark.parametrize("way", ["menu", "directory", "zip", "relative path"])
def test_four_ways_give_the_same_bytes(
    repository: Path, project: Path, tmp_path: Path, way: str
) -> None:
    template = f"templates/{template_of(project)}"
    if way == "menu" and template != TEMPLATE:
        pytest.skip("without questions the menu takes its first template")
    archive = tmp_path / "archive.zip"
    if way == "zip":
        shutil.make_archive(str(archive.with_suffix("")), "zip", repository.parent, "repository")
    relative = os.path.relpath(repository / template, tmp_path)
    arguments = {
        "menu": [str(repository)],
        "directory": [str(repository), "--directory", template],
        "zip": [str(archive), "--directory", template],
        "relative path": [relative],
    }[way]
    result = run_cookiecutter(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert contents(tmp_path / project.name) == contents(project)


def test_the_answers_are_a_replay_file(repository: Path, tmp_path: Path) -> None:
    answers = {
        "project_slug": "mine",
        "encoder": "hf://owner/some-model",
        "data_folder": "数据/one two",
        "strategy": "mirrored",
    }
    project = bake(repository / TEMPLATE, tmp_path / "first", answers)
    path = project / ".cookiecutter.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {"cookiecutter": answers}
    result = subprocess.run(
        [sys.executable, "-m", "cookiecutter", "--replay-file", path, repository / TEMPLATE],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert contents(tmp_path / "mine") == contents(project)


def test_the_users_own_configuration_plays_no_part(
    repository: Path, tmp_path: Path, monkeypatch
) -> None:
    baked = bake(repository / TEMPLATE, tmp_path / "baked")
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text("default_context:\n  encoder: other\n", encoding="utf-8")
    monkeypatch.setenv("COOKIECUTTER_CONFIG", str(configuration))
    assert contents(bake(repository / TEMPLATE, tmp_path / "out")) == contents(baked)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_ruff_is_content_with_a_project(project: Path, command: list[str]) -> None:
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")
    if not ruff:
        pytest.skip("ruff is not installed: pip install ruff")
    result = subprocess.run(
        [ruff, *command, "--no-cache", str(project)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_scripts_let_common_set_tensorflow_up(project: Path) -> None:
    """Some of what it sets is read when TensorFlow is imported: `common` must come before."""
    for script in project.glob("*.py"):
        module = next(
            found
            for found in imported_modules(script)
            if found.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "tqdm"}
        )
        assert module.startswith("common"), f"{script.name} imports {module} first"


def imported_modules(script: Path) -> Iterator[str]:
    """Yield what a script imports, in its order."""
    for statement in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield statement.module


def test_no_trace_of_the_template_is_left(project: Path) -> None:
    pages = {".html", ".jinja", ".j2"}  # What a project itself fills in when it reports.
    for name, content in contents(project).items():
        if name == ".cookiecutter.json":
            continue
        text = content.decode("utf-8")
        assert "cookiecutter." not in text, name
        if Path(name).suffix not in pages | {".py", ".jsonl"}:
            assert not re.search(r"\{\{|\{%", text), name


def test_the_project_does_not_know_where_it_was_made(repository: Path, project: Path) -> None:
    for name, content in contents(project).items():
        assert str(repository).encode() not in content, name
        assert str(project.parent).encode() not in content, name


def test_one_bake_takes_under_two_seconds(repository: Path, tmp_path: Path) -> None:
    start = time.perf_counter()
    bake(repository / TEMPLATE, tmp_path)
    assert time.perf_counter() - start < 2


BAD_ANSWERS = [
    ("project_slug", "", "is no plain name"),
    ("project_slug", "class", "is a word of Python"),
    ("project_slug", "../elsewhere", "is no plain name"),
    ("project_slug", "a/b", "is no plain name"),
    ("project_slug", "/absolute", "is no plain name"),
    ("project_slug", "a\\b", "is no plain name"),
    ("project_slug", "关系抽取", "is no plain name"),
    ("project_slug", "caf\u00e9", "is no plain name"),
    ("project_slug", "2nd", "is no plain name"),
    ("project_slug", "two words", "is no plain name"),
    ("project_slug", 'a"b', "is no plain name"),
    ("project_slug", "a'''b", "is no plain name"),
    ("project_slug", 'a"""+__import__("os").getcwd()+"""', "is no plain name"),
    ("project_slug", "name\n", "is no plain name"),
    ("encoder", "", "is empty"),
    ("encoder", 'tiny"', "holds quotes"),
    ("encoder", "tiny\nepochs = 1", "holds quotes"),
    ("data_folder", "  ", "is empty"),
    ("data_folder", "C:\\data", "holds quotes"),
    ("data_folder", "data ", "holds quotes"),
    ("data_folder", "data\U0001f600", "holds quotes"),
    ("strategy", "many", "is unknown: choose one of auto, single, mirrored, multi_worker, tpu"),
]


@pytest.mark.parametrize(("name", "answer", "expected"), BAD_ANSWERS)
def test_a_bad_answer_is_one_sentence_and_leaves_nothing(
    repository: Path, tmp_path: Path, name: str, answer: str, expected: str
) -> None:
    parent = tmp_path / "inner" / "out"
    parent.mkdir(parents=True)
    with pytest.raises(InputError, match=expected) as error:
        bake(repository / TEMPLATE, parent, {name: answer})
    assert "\n" not in str(error.value) and name in str(error.value)
    assert [path for path in tmp_path.rglob("*")] == [tmp_path / "inner", parent]


def test_the_command_line_says_the_same_sentence(repository: Path, tmp_path: Path) -> None:
    result = run_cookiecutter(str(repository), "project_slug=a/b", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.fullmatch(r'error: project_slug "a/b" is no plain name: [^\n]*\n', result.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_only_an_empty_folder_is_baked_into(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    bake(repository / TEMPLATE, tmp_path, {"project_slug": "mine"})
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InputError, match="is not empty: bake into an empty folder"):
        bake(repository / TEMPLATE, tmp_path, {"project_slug": "mine"})
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    (tmp_path / "default" / SLUG / "folder").mkdir(parents=True)
    with pytest.raises(InputError, match="not empty|already exists"):
        bake(repository / TEMPLATE, tmp_path / "default")
