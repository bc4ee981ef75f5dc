"""The wheel holds what baking needs: installed without a clone, it makes the same projects."""

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from test_bake import SLUG, contents, copy_repository, run_without_questions

from generator import InputError, __version__
from generator.new import make_project

pytestmark = pytest.mark.slow

RECIPE = "event_extraction_fewfc_pretrained"  # starts from an encoder that another baseline made
COMMANDS = [
    ["new", "--no-input", "--to", "new"],
    ["new", "--no-input", "--task", "pretraining", "--to", "new", "extras=all"],
    ["bake", RECIPE, "--to", "baked"],
    ["bake", "seq2seq_sample", "--to", "baked", "extras=none"],
    ["add", "lora", "--to", "baked/seq2seq_sample"],
]


# In one process: the imports take longer than the commands.
CODE = """
import json, sys
sys.path[:0] = sys.argv[2:]
from generator.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ending:
        if ending.code:
            raise
"""


def run_all(folder: Path, python: str | Path, *path: Path) -> str:
    """Run the commands in a new folder; return what they print, without its name."""
    folder.mkdir()
    done = subprocess.run(
        [python, "-c", CODE, json.dumps(COMMANDS), *path],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(folder), "")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this repository."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel: pip install hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = folder.glob("*.whl")
    return path


def test_a_wheel_makes_the_projects_of_the_clone(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "fresh", symlinks=os.name != "nt")
    places = {"base": str(tmp_path / "fresh"), "platbase": str(tmp_path / "fresh")}
    packages = Path(sysconfig.get_path("purelib", "venv", places))
    python = Path(sysconfig.get_path("scripts", "venv", places), Path(sys.executable).name)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # What it depends on is installed here already.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    before = contents(packages)
    installed = run_all(tmp_path / "installed", python)
    assert contents(packages) == before
    assert run_all(tmp_path / "cloned", sys.executable, ROOT) == installed
    projects = [path.parent for path in (tmp_path / "cloned").rglob(".cookiecutter.json")]
    assert len(projects) == 4
    for project in projects:
        other = tmp_path / "installed" / project.relative_to(tmp_path / "cloned")
        assert contents(other) == contents(project)
    refused = subprocess.run(
        [python, "-m", "generator", "check"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert refused.stderr.endswith("clone it and run `pip install -e .` there.\n")


def test_the_wheel_holds_nothing_that_runs_make(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entries] = (archive.read(name) for name in names if name.endswith("/entry_points.txt"))
    brought = r"\}\}/(core|extras|sample|reference)/|\}\}/kaggle.ipynb"
    results = r"/baselines/(?!\w+/(sample|reference|encoder)/)"
    stray = re.compile(rf"/(build|__pycache__|tests/generator)/|{brought}|{results}")
    assert [name for name in names if stray.search(name)] == []
    assert b"nlp-competition-baselines = generator.cli:main" in entries


# ------------------------------------------------------------------------- baselines new


def test_new_says_and_makes_what_cookiecutter_does(tmp_path: Path, monkeypatch, capfd) -> None:
    clone = copy_repository(tmp_path / "clone")
    home = tmp_path / "cookiecutter"
    home.mkdir()
    expected = run_without_questions(clone, "extras=none", cwd=home)
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    make_project(ROOT, None, Path(), {"extras": "none"}, no_input=True)
    assert capfd.readouterr().out == expected.stdout
    found, wanted = contents(tmp_path / "new" / SLUG), contents(home / SLUG)
    # cookiecutter baked from a copy that is no clone.
    origin = json.loads(found.pop(".cookiecutter.json"))
    origin.pop("modified", None)
    assert {**origin, "address": "", "commit": ""} == json.loads(wanted.pop(".cookiecutter.json"))
    assert found == wanted


def test_new_asks_for_the_task_and_the_answers(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("5\nmine\n\n\n\nlora\n"))
    make_project(ROOT, None, tmp_path, {"strategy": "single"}, no_input=False)
    [project] = tmp_path.iterdir()
    origin = json.loads((project / ".cookiecutter.json").read_text(encoding="utf-8"))
    assert project.name == "mine" and origin["template"] == "seq2seq"
    assert origin["cookiecutter"]["extras"] == "lora"
    assert origin["cookiecutter"]["strategy"] == "single"
    said = capsys.readouterr().out
    assert "Select a template" in said and "[5/5]" in said


def test_new_that_can_not_be(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(InputError, match="^the questions have no answers: add --no-input.$"):
        make_project(ROOT, None, tmp_path, {}, no_input=False)
    with pytest.raises(InputError, match="^there is no task 'poetry': the names are relation_"):
        make_project(ROOT, "poetry", tmp_path, {}, no_input=True)
    with pytest.raises(SystemExit, match='^error: extras "poetry" holds the unknown name poetry'):
        make_project(ROOT, None, tmp_path, {"extras": "poetry"}, no_input=True)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match=r'mine" directory already exists: answer another proj'):
        make_project(ROOT, None, tmp_path, {"project_slug": "mine"}, no_input=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file: name a folder.$"):
        make_project(ROOT, None, tmp_path / "file", {}, no_input=True)


# ----------------------------------------------------------------------------- the release


def test_the_changes_of_this_version_are_told() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(__version__)}\]( - \d{{4}}-\d\d-\d\d)?$", text, flags=re.M)
