"""Baking: every way of calling cookiecutter gives one project; bad answers leave nothing behind."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from projects import TEMPLATES, template_of

from generator import InputError, __version__
from generator.bake import SAMPLE, bake, load_baking
from generator.files import CACHES, PROJECT_FOLDER

# The first of the menu: what is the same for all templates is tested with it alone.

pytestmark = pytest.mark.slow

TEMPLATE = "templates/relation_extraction"
SLUG = "relation_extraction_project"
BAKING = load_baking(ROOT / "templates")
EXTRAS = BAKING.known_extras("relation_extraction")


def copy_repository(folder: Path, source: Path = ROOT) -> Path:
    """Copy what cookiecutter reads, as a fresh clone would have it."""
    brought = {
        path / name
        for path in source.glob("templates/*/")
        for name in ("hooks", *(f"{PROJECT_FOLDER}/{n}" for n in ("core", "extras", *SAMPLE)))
    }

    def leave_out(parent: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name in (*CACHES, ".brought.json") or Path(parent, name) in brought
        ]

    shutil.copytree(source / "templates", folder / "templates", ignore=leave_out)
    for path in source.glob("baselines/*_sample/"):
        for name in SAMPLE:
            shutil.copytree(path / name, folder / "baselines" / path.name / name)
    shutil.copy(source / "cookiecutter.json", folder)
    (folder / "generator").mkdir()
    shutil.copy(source / "generator/__init__.py", folder / "generator")
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A copy of what cookiecutter reads."""
    return copy_repository(tmp_path_factory.mktemp("clone") / "repository")


@pytest.fixture(scope="module", params=TEMPLATES)
def project(request, repository: Path, tmp_path_factory) -> Path:
    """A project baked with the default answers."""
    return bake(repository / "templates" / request.param, tmp_path_factory.mktemp("baked"))


def own_home(folder: Path) -> dict[str, str]:
    """Return the environment of a user with an empty home folder."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    names = {"HOME": str(home), "USERPROFILE": str(home)}
    return {**os.environ, **names, "PYTHONDONTWRITEBYTECODE": "1"}


def run_cookiecutter(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess:
    """Call cookiecutter as a user does, with a home folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cookiecutter", *map(str, arguments)],
        cwd=cwd,
        env=own_home(cwd),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def run_without_questions(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess:
    """Call cookiecutter with the default answers, but for those that are given."""
    return run_cookiecutter("--no-input", *arguments, cwd=cwd)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not set(path.parts) & set(CACHES)
    }


# ---------------------------------------------------------------- ways of calling cookiecutter


@pytest.mark.shown("relation_extraction")
@pytest.mark.parametrize("way", ["menu", "directory", "zip", "git", "relative path"])
def test_all_ways_give_the_same_bytes(
    repository: Path, project: Path, tmp_path: Path, way: str
) -> None:
    template = f"templates/{template_of(project)}"
    if way == "menu" and template != TEMPLATE:
        pytest.skip("without questions the menu takes its first template")
    if way in ("zip", "git") and template not in (TEMPLATE, "templates/pretraining"):
        pytest.skip("what is unpacked is the same for all templates")
    # What others brought into the templates is no help, and no hindrance.
    fresh = (
        repository if way == "directory" else copy_repository(tmp_path / "git/fresh", repository)
    )
    arguments = {
        "menu": lambda: [str(fresh)],
        "directory": lambda: [str(fresh), "--directory", template],
        "zip": lambda: [make_zip(fresh), "--directory", template],
        "git": lambda: [make_git(fresh), "--directory", template],
        "relative path": lambda: [os.path.relpath(fresh / template, tmp_path)],
    }[way]()
    result = run_without_questions(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    found, expected = contents(tmp_path / project.name), contents(project)
    origin = json.loads(found.pop(".cookiecutter.json"))
    assert bool(origin.pop("commit")) == (way == "git")
    origin.pop("modified", None)  # this clone has no .gitignore for what baking brings
    assert {**origin, "commit": ""} == json.loads(expected.pop(".cookiecutter.json"))
    assert found == expected


def make_zip(folder: Path) -> str:
    """Zip a repository, as a download of it would be."""
    return shutil.make_archive(str(folder.parent / "archive"), "zip", folder.parent, folder.name)


def make_git(folder: Path) -> str:
    """Commit a repository; return the URL that clones it."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder.as_uri()  # cookiecutter looks for "git" in it


def test_refused_hooks_leave_a_whole_superset(repository: Path, tmp_path: Path) -> None:
    result = run_without_questions(repository / TEMPLATE, "--accept-hooks", "no", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    every = contents(bake(repository / TEMPLATE, tmp_path / "all", {"extras": "all"}))
    default = contents(bake(repository / TEMPLATE, tmp_path / "default"))
    found = contents(tmp_path / SLUG)
    assert found.keys() == every.keys() > default.keys()
    assert {name: found[name] for name in default} == default
    assert (
        sorted(
            {
                name.split("/")[1]
                for name in found
                if name.count("/") > 1 and name.startswith("extras/")
            }
        )
        == EXTRAS
    )


def test_the_answers_are_a_replay_file(repository: Path, tmp_path: Path) -> None:
    answers = {
        "project_slug": "mine",
        "encoder": "hf://owner/some-model",
        "data_folder": "数据/one two",
        "strategy": "mirrored",
        "extras": "orbit,cluster , orbit",
    }
    project = bake(repository / TEMPLATE, tmp_path / "first", answers)
    path = project / ".cookiecutter.json"
    kept = {
        "version": __version__,
        "template": "relation_extraction",
        "address": "",
        "commit": "",
        "cookiecutter": {**answers, "extras": "cluster, orbit"},
    }
    assert json.loads(path.read_text(encoding="utf-8")) == kept
    result = run_cookiecutter("--replay-file", path, repository / TEMPLATE, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert contents(tmp_path / "mine") == contents(project)


def test_config_names_the_files_that_are_there(repository: Path, tmp_path: Path) -> None:
    """In whatever format, seen from the project; JSON Lines where there are several."""
    (tmp_path / "data").mkdir()
    for name in ("train.conll", "dev.txt", "dev.jsonl"):
        (tmp_path / "data" / name).touch()
    place = repository / "templates/named_entity_recognition"
    project = bake(place, tmp_path, {"data_folder": "../data"})
    config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    names = [config[f"{stem}_file"] for stem in ("train", "dev", "test")]
    assert names == ["../data/train.conll", "../data/dev.jsonl", "../data/test.conll"]
    assert f"`{names[0]}`" in (project / "README.md").read_text(encoding="utf-8")


def test_archives_and_copies_are_no_data(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("train.csv.zip", "dev.csv", "dev.csv.bak", "test.zip"):
        (tmp_path / "data" / name).touch()
    place = repository / "templates/text_classification"
    project = bake(place, tmp_path, {"data_folder": "../data", "extras": "competition"})
    config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    names = [config[f"{stem}_file"] for stem in ("train", "dev", "test")]
    assert names == ["../data/train.jsonl", "../data/dev.csv", "../data/test.jsonl"]


@pytest.mark.parametrize(
    "name, found",
    [
        ("sample_submission.csv", True),
        ("sampleSubmission.csv", True),
        ("SampleSubmission.tsv", True),
        ("old_sample_submission.csv", False),
    ],
)
def test_config_names_the_files_of_a_competition(
    repository: Path, tmp_path: Path, name: str, found: bool
) -> None:
    """The sample is found by its name; dev, which is made of train, is a table too."""
    (tmp_path / "data").mkdir()
    for own in ("train.csv", "test.csv", name):
        (tmp_path / "data" / own).touch()
    place = repository / "templates/text_classification"
    project = bake(place, tmp_path, {"data_folder": "../data", "extras": "competition"})
    config = tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))
    names = [config[f"{stem}_file"] for stem in ("train", "dev", "test")]
    assert names == ["../data/train.csv", "../data/dev.csv", "../data/test.csv"]
    assert config["competition"]["sample_submission"] == (f"../data/{name}" if found else "")


@pytest.mark.parametrize("folder, found", [("data", False), ("../data", True), ("sample", True)])
def test_a_folder_without_training_data_is_said(
    repository: Path, tmp_path: Path, folder: str, found: bool
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.jsonl").touch()
    answers = ["project_slug=mine", f"data_folder={folder}", "extras=none"]
    result = run_without_questions(repository / TEMPLATE, *answers, cwd=tmp_path)
    note = "note: mine/data holds no training file yet. A relative data_folder starts at"
    assert result.returncode == 0 and (note not in result.stdout) == found
    lacks_dev = "holds no dev file yet: extras/folds trains without one." in result.stdout
    assert lacks_dev == (folder == "../data")


@pytest.mark.shown("relation_extraction")
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_named_encoder_brings_the_extra_that_reads_it(
    repository: Path, tmp_path: Path, template: str
) -> None:
    """As the default of the last question, which another answer replaces."""
    place = f"templates/{template}"
    default = ["comparison", "doctor"]
    if template == "text_classification":  # of tables, and of numbers
        default.insert(1, "competition")
    for number, (answers, chosen) in enumerate(
        [
            (["encoder=hf://owner/model"], [*default, "encoders"]),
            (["encoder=tiny"], default),
            (["encoder=../folder", "extras=doctor"], ["doctor"]),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = run_without_questions(repository / place, *answers, cwd=folder)
        assert result.returncode == 0, result.stderr
        [project] = folder.glob("*_project")
        assert [path.parent.name for path in sorted(project.glob("extras/*/README.md"))] == chosen
        kept = json.loads((project / ".cookiecutter.json").read_text(encoding="utf-8"))
        assert kept["cookiecutter"]["extras"] == ", ".join(chosen)
    again = run_cookiecutter(
        "--replay-file", project / ".cookiecutter.json", repository / place, cwd=tmp_path
    )
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / project.name) == contents(project)


def test_the_users_own_configuration_plays_no_part(
    repository: Path, tmp_path: Path, monkeypatch
) -> None:
    baked = bake(repository / TEMPLATE, tmp_path / "baked")
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text("default_context:\n  encoder: other\n", encoding="utf-8")
    monkeypatch.setenv("COOKIECUTTER_CONFIG", str(configuration))
    assert contents(bake(repository / TEMPLATE, tmp_path / "out")) == contents(baked)


def test_baking_leaves_the_repository_as_it_is(tmp_path: Path) -> None:
    fresh = copy_repository(tmp_path / "fresh")
    before = contents(fresh)
    for template in TEMPLATES:
        bake(fresh / "templates" / template, tmp_path)
    assert contents(fresh) == before


def test_two_clones_in_one_process(repository: Path, tmp_path: Path) -> None:
    """cookiecutter imports the extension by its name: the second is not that of the first."""
    other = copy_repository(tmp_path / "other")
    (other / "templates/extras/zebra").mkdir()
    (other / "templates/extras/zebra/README.md").write_text("striped\n")
    shutil.copy(other / "templates/extras/orbit/extra.toml", other / "templates/extras/zebra")
    for clone, expected in (
        (repository, EXTRAS),
        (other, [*EXTRAS, "zebra"]),
        (repository, EXTRAS),
    ):
        project = bake(
            clone / TEMPLATE, tmp_path / expected[-1] / str(time.time_ns()), {"extras": "all"}
        )
        assert [path.parent.name for path in sorted(project.glob("extras/*/README.md"))] == expected
    assert "relation_extraction_extension" not in sys.modules


# ---------------------------------------------------------------------------------- extras


@pytest.mark.shown("chosen1", "chosen3")
@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("all", EXTRAS),
        ("none", []),
        ("doctor", ["doctor"]),
        ("orbit,cluster", ["cluster", "orbit"]),
    ],
)
def test_a_project_has_the_chosen_extras(
    repository: Path, tmp_path: Path, answer: str, chosen: list[str]
) -> None:
    result = run_without_questions(repository / TEMPLATE, f"extras={answer}", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    project = tmp_path / SLUG
    assert [path.parent.name for path in sorted(project.glob("extras/*/README.md"))] == chosen
    assert (project / "extras").is_dir() == bool(chosen)
    config = (project / "config.toml").read_text(encoding="utf-8")
    assert config.endswith("\n") and "\n\n\n" not in config and not config.endswith("\n\n")
    for name in EXTRAS:
        table = repository / "templates/extras" / name / "config.toml"
        if table.is_file():
            assert (table.read_text(encoding="utf-8").strip() in config) == (name in chosen)
    assert result.stdout == f"cd {SLUG} && pip install -r requirements.txt && python train.py\n"
    assert contents(bake(repository / TEMPLATE, tmp_path / "api", {"extras": answer})) == contents(
        project
    )


def test_extras_join_a_project_without_touching_what_is_there(
    repository: Path, tmp_path: Path
) -> None:
    project = bake(repository / TEMPLATE, tmp_path, {"extras": "doctor"})
    for name in (
        "task/model.py",
        "core/base/files.py",
        "config.toml",
        "README.md",
        "extras/doctor/mine.py",
    ):
        with open(project / name, "a", encoding="utf-8") as file:
            file.write("# mine\n")
    path = project / ".cookiecutter.json"
    path.write_text(path.read_text().replace('"doctor"', '"cluster, orbit"'))
    before = contents(project)
    result = run_cookiecutter(
        "-f", "-s", "--replay-file", path, repository / TEMPLATE, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    after = contents(project)
    page = "extras/README.md"  # of all extras that the project has now
    assert {n: after[n] for n in before if n != page} == {
        name: text for name, text in before.items() if name != page
    }
    chosen = {"extras": "cluster, doctor, orbit"}
    expected = contents(bake(repository / TEMPLATE, tmp_path / "three", chosen))
    assert after[page] == expected[page] != before[page]
    whole = contents(bake(repository / TEMPLATE, tmp_path / "whole", {"extras": "all"}))
    joined = {name: after[name] for name in after.keys() - before.keys()}
    assert joined == {
        name: text
        for name, text in whole.items()
        if name.startswith(("extras/cluster/", "extras/orbit/"))
    }
    table = (repository / "templates/extras/orbit/config.toml").read_text(encoding="utf-8").strip()
    assert "extras/orbit joined the project" in result.stdout and table in result.stdout
    assert "doctor" not in result.stdout and "pip install" not in result.stdout
    # A table that is in config.toml is not printed again.
    with open(project / "config.toml", "a", encoding="utf-8") as file:
        file.write(f"{table}\n")
    shutil.rmtree(project / "extras/orbit")
    result = run_cookiecutter(
        "-f", "-s", "--replay-file", path, repository / TEMPLATE, cwd=tmp_path
    )
    assert result.stdout == "extras/orbit joined the project.\n"


def test_a_replay_file_with_a_wrong_extra_changes_nothing(repository: Path, tmp_path: Path) -> None:
    project = bake(repository / TEMPLATE, tmp_path, {"extras": "doctor"})
    path = project / ".cookiecutter.json"
    path.write_text(path.read_text().replace('"doctor"', '"doctor, obit"'))
    before = contents(tmp_path)
    for arguments in (["-f", "-s"], ["-o", "elsewhere"]):
        result = run_cookiecutter(
            *arguments, "--replay-file", path, repository / TEMPLATE, cwd=tmp_path
        )
        assert result.returncode == 1 and result.stdout == ""
        assert re.fullmatch(
            r'error: extras "doctor, obit" holds the unknown name obit: [^\n]*\n', result.stderr
        )
        shutil.rmtree(tmp_path / "home")
        assert contents(tmp_path) == before and not (tmp_path / "elsewhere").exists()


def test_the_next_command_is_safe_in_any_folder(repository: Path, tmp_path: Path) -> None:
    """Answers and paths reach the hook as data: nothing in them is run."""
    folder = """it's "odd" $(touch x) \\ &"""
    (tmp_path / folder).mkdir()
    result = run_without_questions(repository / TEMPLATE, "-o", folder, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    command = result.stdout.partition(" && ")[0]
    found = subprocess.run(
        f"{command} && pwd", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert found.stdout == f"{tmp_path / folder / SLUG}\n"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]])
def test_ruff_is_content_with_a_project(project: Path, command: list[str]) -> None:
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")
    if not ruff:
        pytest.skip("ruff is not installed: pip install ruff")
    result = subprocess.run(
        [ruff, *command, "--no-cache", str(project)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_scripts_let_core_set_tensorflow_up(project: Path) -> None:
    """Some of what it sets is read when TensorFlow is imported: `core` must come before."""
    for script in project.glob("*.py"):
        if "__main__" not in script.read_text(encoding="utf-8"):
            continue  # a module of the scripts
        module = next(
            found
            for found in imported_modules(script)
            if found.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "tqdm"}
        )
        assert module.partition(".")[0] == "core", f"{script.name} imports {module} first"


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
        assert not re.search(r"\{[{%][^\n]*cookiecutter\.", text), name
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
    ("project_slug", "", "is not a plain name"),
    ("project_slug", "class", "is a word of Python"),
    ("project_slug", "../elsewhere", "is not a plain name"),
    ("project_slug", "a/b", "is not a plain name"),
    ("project_slug", "/absolute", "is not a plain name"),
    ("project_slug", "a\\b", "is not a plain name"),
    ("project_slug", "关系抽取", "is not a plain name"),
    ("project_slug", "caf\u00e9", "is not a plain name"),
    ("project_slug", "2nd", "is not a plain name"),
    ("project_slug", "two words", "is not a plain name"),
    ("project_slug", 'a"b', "is not a plain name"),
    ("project_slug", "a'''b", "is not a plain name"),
    ("project_slug", 'a"""+__import__("os").getcwd()+"""', "is not a plain name"),
    ("project_slug", "name\n", "is not a plain name"),
    ("encoder", "", "is empty"),
    ("encoder", 'tiny"', "holds quotes"),
    ("encoder", "tiny\nepochs = 1", "holds quotes"),
    ("data_folder", "  ", "is empty"),
    ("data_folder", "C:\\data", "holds quotes"),
    ("data_folder", "data ", "holds quotes"),
    ("data_folder", "~/data", "begins with ~, which stands for your home in a shell only"),
    ("data_folder", "data\U0001f600", "holds quotes"),
    ("extras", "", "is empty: choose from averaging"),
    ("extras", "doctor,obit", "holds the unknown name obit: choose from averaging"),
    ("extras", "all,doctor", "holds the unknown name all: .* or write all or none alone"),
    ("extras", "../core", "holds the unknown name"),
    ("extras", "doctor,retrieval", "holds retrieval, which text_classification has alone: choose"),
    ("strategy", "multi_worker", "needs the extra cluster: write extras=comparison,doctor,cluster"),
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
    result = run_without_questions(repository, "project_slug=a/b", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.fullmatch(r'error: project_slug "a/b" is not a plain name: [^\n]*\n', result.stderr)
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
