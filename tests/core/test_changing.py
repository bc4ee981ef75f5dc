"""What CHANGING.md of a project shows to change fits its code, and the changed project trains."""

import re
from pathlib import Path

import pytest
from conftest import ROOT
from projects import (
    CASES,
    TASKS,
    TEMPLATES,
    bake_project,
    flags,
    further,
    prepare,
    run,
    shorten,
)

PAGE, CHINESE_PAGE = "CHANGING.md", "CHANGING_zh.md"


def page(template: str, name: str = PAGE) -> str:
    """Return a page as the template has it."""
    return (ROOT / "templates" / template / "{{cookiecutter.project_slug}}" / name).read_text(
        encoding="utf-8"
    )


def diffs(text: str) -> list[str]:
    """Return the diffs of a page."""
    return re.findall(r"^```diff\n(.*?)^```$", text, flags=re.M | re.S)


def hunks(diff: str) -> list[tuple[str, str, str]]:
    """Return the file of each hunk, its lines, and what becomes of them."""
    found, path, lines = [], "", []
    for line in [*diff.splitlines(), "@@"]:
        if not line.startswith(("@@", "# ")):
            lines.append(line)
            continue
        if lines:
            assert path and all(line[:1] in (" ", "-", "+", "") for line in lines), diff
            old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
            new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
            found.append((path, old, new))
        path, lines = line[2:] if line.startswith("# ") else path, []
    return found


def apply(diff: str, project: Path) -> None:
    """Change the files of a project; the lines of each hunk must be there once."""
    for path, old, new in hunks(diff):
        file = project / path
        code = f"\n{file.read_text(encoding='utf-8')}"
        assert code.count(f"\n{old}") == 1, f"{path} has not once:\n{old}"
        changed = code.replace(f"\n{old}", f"\n{new}")[1:]
        if file.suffix == ".py":
            compile(changed, path, "exec")
        file.write_text(changed, encoding="utf-8", newline="\n")


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_change_fits_the_project(template, tmp_path):
    project = bake_project(template, tmp_path)
    files = [*project.rglob("*.py"), *project.glob("*.toml")]
    original = {file: file.read_bytes() for file in files}
    for diff in diffs(page(template)):
        apply(diff, project)
        for file, content in original.items():
            file.write_bytes(content)


@pytest.mark.parametrize("template", TEMPLATES)
def test_both_languages_show_the_same_changes(template):
    assert diffs(page(template, CHINESE_PAGE)) == diffs(page(template)) != []


# Entities and events share the batches of windows with relations.
SHOWN = ("pretraining", "reading_comprehension", "relation_extraction")
SHOWN += ("seq2seq", "text_classification")


@pytest.mark.trains
@pytest.mark.parametrize("template", further(TEMPLATES, *SHOWN))
def test_a_project_with_all_changes_trains(template, tmp_path):
    """The score that the page adds decides, and prediction reads the inputs that it adds."""
    project = bake_project(template, tmp_path, extras="comparison, doctor")
    for diff in diffs(page(template)):
        apply(diff, project)
    if template in TASKS:
        shorten(project, {"train": 64, "dev": 16, "test": 16})
    else:
        prepare(project, *flags(project))
    trained = run(project / "train.py", *flags(project, steps=3, epochs=1), cwd=project).stdout
    assert f"best dev {CASES[template].CHANGED_SCORE} " in trained
    if template == "relation_extraction":  # its model has the most inputs and losses
        checked = run(project / "check.py", *flags(project), cwd=project, check=False)
        assert checked.returncode == 0, checked.stdout
    if template in TASKS:
        [file] = project.glob("sample/test.*")
        run(project / "predict.py", "default", file, f"out{file.suffix}", cwd=project)
