"""Shared files in a template: brought whole, by several processes at once, and never in git."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT
from cookiecutter.generate import is_binary
from jinja2 import Environment
from projects import TEMPLATES
from test_bake import (
    SLUG,
    TEMPLATE,
    contents,
    copy_repository,
    run_without_questions,
)

from generator.bake import SAMPLE, bake, load_baking
from generator.files import PROJECT_FOLDER


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone."""
    return copy_repository(tmp_path / "clone")


def bring(clone: Path) -> ModuleType:
    """Bring the shared files into a template; return the module that did it."""
    baking = load_baking(clone / "templates")
    baking.bring_files(clone / TEMPLATE, ("core/layers/language_model.py",))
    return baking


def test_what_names_an_answer_is_no_binary_file_to_cookiecutter() -> None:
    """It copies what it takes for binary as it is; it takes some Chinese texts for that."""
    is_rendered = load_baking(ROOT / "templates").is_rendered
    folders = [ROOT / "templates/shared", *ROOT.glob(f"templates/*/{PROJECT_FOLDER}")]
    rendered = 0
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        if is_rendered(path.name, path.read_bytes().decode("utf-8", "replace")):
            rendered += 1
            assert not is_binary(str(path)), path
    assert rendered > len(TEMPLATES)


# ------------------------------------------------------------------------------- bringing


def test_what_differs_is_written_and_what_left_is_removed(clone: Path) -> None:
    fresh = contents(clone)
    bring(clone)
    project = clone / TEMPLATE / PROJECT_FOLDER
    whole = contents(clone)
    assert (project / "core/layers/pointers.py").is_file()
    sample = f"{TEMPLATE.rpartition('/')[2]}_sample"
    for name in ("sample/train.jsonl", "reference/scores.json"):
        assert (project / name).read_bytes() == (clone / "baselines" / sample / name).read_bytes()
    assert not (project / "core/layers/language_model.py").exists()
    assert {name: whole[name] for name in fresh} == fresh
    times = {path: path.stat().st_mtime_ns for path in project.rglob("*.py")}
    bring(clone)
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*.py")} == times
    # Somebody edits the copy, and a shared file and an extra go.
    (project / "core/base/files.py").write_text("edited\n")
    for folder in ("core/new", "sample/new"):
        (project / folder).mkdir()
        (project / folder / "mine.py").write_text("mine\n")
    (project / "sample/dev.jsonl").write_text("edited\n")
    (clone / "templates/core/data/tokens.py").unlink()
    shutil.rmtree(clone / "templates/extras/orbit")
    (clone / "templates/shared/pyproject.toml").unlink()
    for name in ("__pycache__", ".ruff_cache", "task/.mypy_cache"):
        (project / name).mkdir()
        (project / name / "1").write_bytes(b"text, and no text: \x89\xfc")
    bring(clone)
    assert not [*project.rglob("*cache*/1")]  # cookiecutter would copy it, or fail to read it
    now = contents(clone)
    gone = {name for name in whole.keys() - now.keys() if name.startswith(f"{TEMPLATE}/")}
    assert gone == {
        name
        for name in whole
        if name.startswith(f"{TEMPLATE}/")
        and ("/extras/orbit/" in name or name.endswith(("core/data/tokens.py", "}/pyproject.toml")))
    }
    assert {
        now[name] == whole[name] for name in now.keys() & whole.keys() if "brought" not in name
    } == {True}
    for name in ("core/new", "sample/new", "extras/orbit"):
        assert not (project / name).exists()


def test_a_former_shared_file_with_another_content_stays(clone: Path) -> None:
    bring(clone)
    own = clone / TEMPLATE / PROJECT_FOLDER / "pyproject.toml"
    own.write_text("# the task's own now\n")
    (clone / "templates/shared/pyproject.toml").unlink()
    bring(clone)
    assert own.read_text() == "# the task's own now\n"


def test_without_the_baselines_there_is_no_sample(clone: Path) -> None:
    shutil.rmtree(clone / "baselines")
    with pytest.raises(SystemExit, match="^error: .*sample is absent: bake from a whole copy of"):
        bring(clone)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_script_can_still_be_run(clone: Path) -> None:
    script = clone / "templates/extras/tpu/tpu_vm.sh"
    script.chmod(0o755)
    bring(clone)
    copy = clone / TEMPLATE / PROJECT_FOLDER / "extras/tpu/tpu_vm.sh"
    assert copy.stat().st_mode & 0o777 == 0o755
    script.chmod(0o644)
    bring(clone)
    assert copy.stat().st_mode & 0o777 == 0o644


@pytest.mark.slow
def test_several_bakes_from_one_clone_at_once(clone: Path, tmp_path: Path) -> None:
    expected = contents(bake(clone / TEMPLATE, tmp_path / "expected", {"extras": "all"}))
    folders = [tmp_path / f"user_{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(len(folders)) as threads:
        results = list(
            threads.map(
                lambda folder: run_without_questions(clone / TEMPLATE, "extras=all", cwd=folder),
                folders,
            )
        )
    assert [result.returncode for result in results] == [0] * 4, results[0].stderr
    assert all(contents(folder / SLUG) == expected for folder in folders)


def test_writers_of_one_file_do_not_disturb_each_other(clone: Path) -> None:
    """Brought again and again, while others do so too and a walker reads all that it finds."""
    code = f"""
import shutil, sys
from pathlib import Path
sys.path.insert(0, {str(clone / "templates")!r})
import baking
template = Path({str(clone / TEMPLATE)!r})
baking.bring_files(template, ())
for number in range(6):
    if number % 4 == int(sys.argv[1]):
        (template / baking.PROJECT / "core/base/files.py").write_text("edited")
    baking.bring_files(template, ())
    for path in sorted((template / baking.PROJECT).rglob("*")):
        assert not path.name.startswith(".writing-"), path
        path.is_dir() or path.read_bytes()
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], stderr=subprocess.PIPE)
        for number in range(3)
    ]
    for process in processes:
        assert process.wait() == 0, process.stderr.read()
    assert not list((clone / TEMPLATE).rglob(".writing-*"))


# ------------------------------------------------------------------------------ read-only


def test_a_clone_that_can_not_be_written_to(clone: Path, monkeypatch) -> None:
    def refuse(*_, **__) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    expected = (
        r"error: .*relation_extraction can't be written to \(Read-only file system\), and the "
        r"shared files .*: bake from a copy .* `baselines bake relation_extraction_sample --to DIR`"
    )
    with pytest.raises(SystemExit, match=expected) as refusal:
        bring(clone)
    assert "\n" not in str(refusal.value)
    monkeypatch.undo()
    bring(clone)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    bring(clone)  # nothing is left to write


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_clone_of_somebody_else(clone: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("no mode of a file stops the superuser")
    paths = [clone, *clone.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        result = run_without_questions(clone / TEMPLATE, cwd=tmp_path)
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert result.returncode == 1
    assert re.fullmatch(r"error: [^\n]* can't be written to [^\n]*\n", result.stderr)
    assert not (tmp_path / SLUG).exists()


# ----------------------------------------------------------------------- copied, not rendered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        'a "b" \\n \\" \'c\'',
        "{{ x }} {% raw %} {# c #} }}",
        "中文 \U0001f600 \x00 \u2028 ï",
        "\\",
    ],
)
def test_files_are_copied_to_the_letter(text: str) -> None:
    baking = load_baking(ROOT / "templates")
    environment = Environment(keep_trailing_newline=True)
    assert environment.from_string(baking.as_literal(text)).render() == text


def test_python_is_never_rendered(clone: Path, tmp_path: Path) -> None:
    text = '"""{{ cookiecutter.project_slug }}"""\nVALUE = f"{{1}}"  # {% if %} {#\n'
    (clone / "templates/core/base/odd.py").write_text(text)
    (clone / "templates/extras/doctor/odd.md").write_text(
        "{{ cookiecutter.project_slug }} {{ 1 }}\n"
    )
    (clone / "templates/extras/doctor/plain.md").write_text("{{ 1 }} {% cookiecutter\n")
    project = bake(clone / TEMPLATE, tmp_path)
    assert (project / "core/base/odd.py").read_text() == text
    assert (project / "extras/doctor/odd.md").read_text() == f"{SLUG} 1\n"
    assert (project / "extras/doctor/plain.md").read_text() == "{{ 1 }} {% cookiecutter\n"


def test_scripts_of_extras_know_the_project(clone: Path, tmp_path: Path) -> None:
    project = bake(clone / TEMPLATE, tmp_path, {"extras": "all", "project_slug": "My_project"})
    assert "--job-name=My_project\n" in (project / "extras/cluster/slurm.sbatch").read_text()
    assert "name: my-project" in (project / "extras/cluster/kubernetes.yaml").read_text()
    assert "My_project" in (project / "extras/tpu/tpu_vm.sh").read_text()


# ------------------------------------------------------------------------- this repository


def git(*arguments: str) -> str:
    """Return what git says of this repository."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is not a clone")
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout


def test_what_is_brought_is_not_in_git(clone: Path) -> None:
    bring(clone)
    before = contents(ROOT / "templates")
    brought = [
        f"templates/{name}"
        for name in contents(clone / "templates").keys() - before.keys()
        if name.startswith("relation_extraction/")
    ] or [f"{TEMPLATE}/hooks/post_gen_project.py"]
    assert sorted(git("check-ignore", *brought).split("\n")[:-1]) == sorted(brought)
    tracked = git("ls-files", "templates").split("\n")
    for folder in ("core", "extras", *SAMPLE):
        assert not [name for name in tracked if f"{PROJECT_FOLDER}/{folder}/" in name]
    # Nothing else is ignored that belongs to the repository.
    sources = [
        f"templates/{name}" for name in before if name.startswith(("core/", "extras/", "shared/"))
    ]
    assert git("check-ignore", "--no-index", *sources) == ""


def test_the_repository_stays_small() -> None:
    """The shared code stands once, and in the one project that is committed to be looked at."""
    recipes = tomllib.loads((ROOT / "generator/baselines.toml").read_text(encoding="utf-8"))
    baked = {name for name, recipe in recipes.items() if recipe.get("baked")}
    files = Counter(path.split("/")[1] for path in git("ls-files", "baselines").splitlines())
    assert max(count for name, count in files.items() if name not in baked) <= 9
    assert len(git("ls-files").splitlines()) - sum(files.values()) <= 985
    copies = git("ls-files", "*/core/base/errors.py").splitlines()
    assert {path.split("/")[1] for path in copies} == {"core", *baked} and len(baked) == 1


def test_all_stubs_are_alike() -> None:
    assert len({(ROOT / "templates" / n / f"{n}_extension.py").read_text() for n in TEMPLATES}) == 1


def test_no_result_names_a_folder_of_the_machine():
    results = git("ls-files", "benchmarks/results/*.json*", "baselines/*scores.json").splitlines()
    assert results
    for name in results:
        # A path from the root, alone or among the words of a command.
        found = re.search(r'["\s=]/\w+/[^"\s]*', (ROOT / name).read_text(encoding="utf-8"))
        assert not found, f"{name} names {found[0]}: write what was measured, not where."


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_file_that_a_template_keeps_imports_one_that_it_leaves_out(template: str) -> None:
    questions = json.loads((ROOT / f"templates/{template}/cookiecutter.json").read_text())
    left_out = {name.removesuffix(".py").replace("/", ".") for name in questions["_left_out"]}
    for path in (ROOT / "templates/core").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "templates").with_suffix("").parts)
        read = set(re.findall(r"^from ([\w.]+) import", path.read_text(encoding="utf-8"), re.M))
        assert name in left_out or not read & left_out, name
