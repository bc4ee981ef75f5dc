"""An extra is declared once, in extra.toml: what it says is valid, and reaches each place."""

import ast
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from projects import TEMPLATES
from test_bake import contents, copy_repository

from core.base.extras import EXTRA_NAMES
from generator.bake import bake, load_baking
from generator.document_tables import TABLES
from generator.extra_tables import REQUIREMENTS, read_extras, write_extras, written_files
from generator.files import PROJECT_FOLDER
from generator.marks import update_document

EXTRA = ROOT / "templates/extras"
FOLDERS = sorted(path.name for path in EXTRA.iterdir() if (path / "README.md").is_file())
DECLARED = load_baking(ROOT / "templates").declared
EXTRAS = read_extras(ROOT)
KINDS = {
    **dict.fromkeys(("title", "sentence", "sentence_zh", "group", "default"), str),
    **dict.fromkeys(("templates", "needs", "requirements", "hooks"), list),
    "order": int,
}
DOCUMENTS = ("README.md", "README_zh.md", "docs/architecture.md")


# ------------------------------------------------------------------- what is declared


@pytest.mark.parametrize("name", FOLDERS)
def test_a_declaration_has_valid_keys(name: str) -> None:
    values = tomllib.loads((EXTRA / name / DECLARED.FILE).read_text(encoding="utf-8"))
    kinds = {**KINDS, **({"task_files": list} if "task_files" in values else {})}
    assert {key: type(value) for key, value in values.items()} == kinds
    for path in values.get("task_files", ()):
        # Not in all: what teachers say of spans is asked of the tasks that have spans.
        assert any(
            (ROOT / "templates" / one / PROJECT_FOLDER / path).is_file()
            for one in values["templates"]
        )
    assert values["group"] in DECLARED.GROUPS and values["default"] in DECLARED.DEFAULTS
    assert values["templates"] == ["all"] or values["templates"] == sorted(
        {*values["templates"]} & {*TEMPLATES}
    )
    assert {*values["needs"]} <= {*FOLDERS} - {name}
    for key in ("title", "sentence", "sentence_zh"):
        assert values[key].strip() == values[key] != "" and not re.search("[|\n]", values[key])
    links = DECLARED.LINK.findall(values["sentence"])
    assert [link for _, link in DECLARED.LINK.findall(values["sentence_zh"])] == [
        link for _, link in links
    ]
    assert all((ROOT / link.partition("#")[0]).is_file() for _, link in links)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_hooks_are_the_functions_of_the_module(name: str) -> None:
    path = EXTRA / name / "hooks.py"
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    assert [*EXTRAS[name].hooks] == [one for one in functions if not one.startswith("_")]


def test_every_folder_is_declared_and_has_a_place_of_its_own() -> None:
    assert sorted(EXTRAS) == FOLDERS and list(EXTRAS) == list(EXTRA_NAMES)
    assert [extra.order for extra in EXTRAS.values()] == list(range(1, len(EXTRAS) + 1))
    assert {name: one.title for name, one in EXTRAS.items()} == EXTRA_NAMES


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("order = \n", "extra.toml is broken (Invalid value"),
        ("order = 1\n", "extra.toml is broken (.*missing"),
        ("surplus = 1\n", "extra.toml is broken (.*unexpected keyword argument 'surplus'"),
    ],
)
def test_a_broken_declaration_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / DECLARED.FILE).write_text(text)
    with pytest.raises(SystemExit, match=sentence.replace("(", r"\(")) as refusal:
        DECLARED.read_extras(tmp_path)
    assert "\n" not in str(refusal.value)


# ----------------------------------------------------------------------- what follows


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of this repository, without what is not written from declarations."""
    root = copy_repository(tmp_path / "repository")
    for name in DOCUMENTS:
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


def build(root: Path) -> dict[str, str]:
    """Write what follows from the declarations; return the files that have it."""
    write_extras(root)
    for name in DOCUMENTS:
        update_document(root, root / name, {"extras": TABLES[name]["extras"]})
    paths = [*(path.as_posix() for path in written_files(root)), *DOCUMENTS]
    return {name: (root / name).read_text(encoding="utf-8") for name in paths}


def change(root: Path, name: str, old: str, new: str) -> set[str]:
    """Change a declaration and build; return what differs then."""
    before, path = build(root), root / "templates/extras" / name / DECLARED.FILE
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    after = build(root)
    return {file for file in before.keys() | after if before.get(file) != after.get(file)}


def readmes(language: str, *templates: str) -> set[str]:
    """Return the READMEs of the projects of some templates."""
    return {f"templates/{name}/{PROJECT_FOLDER}/README{language}.md" for name in templates}


def test_this_repository_is_as_it_is_built(repository: Path) -> None:
    assert build(repository) == {
        name: (ROOT / name).read_text(encoding="utf-8") for name in build(repository)
    }


def test_each_readme_has_the_table(repository: Path) -> None:
    for name, text in build(repository).items():
        if name.endswith(".md"):
            [table] = re.findall("<!-- extras: begin -->\n(.*)\n<!-- extras: end -->", text, re.S)
            template = name.split("/")[1] if name.startswith("templates/") else ""
            found = re.findall(r"^\|.*?\| \[?`(\w+)`", table, flags=re.M)
            assert sorted(found) == sorted(read_extras(ROOT, template))
            assert ("](" in table) == (template == "")


def test_a_sentence_reaches_every_table(repository: Path) -> None:
    for key, language in (("sentence", ""), ("sentence_zh", "_zh")):
        found = change(repository, "orbit", f'{key} = "', f'{key} = "New: ')
        assert found == {f"README{language}.md", *readmes(language, *TEMPLATES)}


def test_a_title_and_an_order_reach_core_and_the_map_of_the_house(repository: Path) -> None:
    core = {"templates/core/base/extra_names.toml", "docs/architecture.md"}
    assert change(repository, "orbit", 'title = "', 'title = "New: ') == core
    assert change(repository, "tpu", "order = 22", "order = 0") >= core
    names = (repository / "templates/core/base/extra_names.toml").read_text(encoding="utf-8")
    assert names.splitlines()[1].startswith("tpu = ")


def test_the_templates_reach_questions_and_tables(repository: Path) -> None:
    found = change(repository, "retrieval", '["text_classification"]', '["seq2seq"]')
    both = ("seq2seq", "text_classification")
    questions = {f"templates/{name}/cookiecutter.json" for name in both}
    own = readmes("", *both) | readmes("_zh", *both)
    assert found == {"README.md", "README_zh.md", *own, *questions}


def test_the_default_reaches_the_questions(repository: Path) -> None:
    questions = repository / "templates/seq2seq/cookiecutter.json"
    change(repository, "folds", 'default = "no"', 'default = "always"')
    change(repository, "tpu", 'default = "no"', 'default = "pretrained"')
    assert json.loads(questions.read_text())["extras"] == (
        "comparison, doctor, folds{{ '' if cookiecutter.encoder == 'tiny' else ', encoders, tpu' }}"
    )


def test_requirements_hooks_and_groups_reach_their_places(repository: Path) -> None:
    path = f"templates/extras/orbit/{REQUIREMENTS}"
    assert change(repository, "orbit", '"tf-keras', '"more>=1", "tf-keras') == {path}
    assert "no-deps" in (repository / path).read_text()
    assert change(repository, "folds", "requirements = []", 'requirements = ["more"]') == {
        path.replace("orbit", "folds")
    }
    assert change(repository, "orbit", '"prepare"', '"others"') == {"docs/architecture.md"}
    found = change(repository, "orbit", "more machines", "less memory")
    tables = readmes("", *TEMPLATES) | readmes("_zh", *TEMPLATES)
    assert found == {"README.md", "README_zh.md", *tables}


# --------------------------------------------------------------- the page of a project


@pytest.mark.slow
def test_a_project_lists_its_own_extras_and_their_hooks(tmp_path: Path) -> None:
    project = bake(ROOT / "templates/relation_extraction", tmp_path, {"extras": "folds, lora"})
    page = (project / "extras/README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\w+)/README.md\)", page) == ["lora", "folds"]
    rows = re.findall(r"^\| `(\w+)` \| (\[.+) \|$", page, flags=re.M)
    hooks = {hook: re.findall(r"\[(\w+)\]\(\1/hooks.py\)", own) for hook, own in rows}
    assert hooks == {"prepare": ["lora", "folds"], "restore_base": ["lora"]}
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (project / "extras" / link).is_file()


@pytest.mark.slow
def test_what_is_needed_joins_what_is_chosen(tmp_path: Path) -> None:
    project = bake(ROOT / "templates/relation_extraction", tmp_path, {"extras": "tpu"})
    kept = json.loads((project / ".cookiecutter.json").read_text())["cookiecutter"]
    assert kept["extras"] == "doctor, tpu"
    assert {path.parent.name for path in project.glob("extras/*/README.md")} == {"doctor", "tpu"}


@pytest.mark.slow
def test_without_extras_there_is_no_page(tmp_path: Path) -> None:
    project = bake(ROOT / "templates/relation_extraction", tmp_path, {"extras": "none"})
    assert not [name for name in contents(project) if name.startswith("extras/")]
