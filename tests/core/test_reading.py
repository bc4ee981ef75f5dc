"""A project is read in an hour and a half at most: a short closed path, few hops, few hooks."""

import json
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT
from projects import TEMPLATES, bake_project, flags, further

from generator import InputError
from generator import reading_path as reading_path_module
from generator.reading_path import (
    READMES,
    count_lines,
    glossary,
    outside_names,
    reading_path,
    reading_table,
)

LINES = {"relation_extraction": 975, "text_classification": 975, "seq2seq": 1050}
MOST_LINES, MOST_TRAIN_LINES, MOST_ROWS, MOST_HOPS = 1370, 160, 12, 4

# Notes the functions of the project, and Keras's fit as one, on the way to the first gradient.
WALK = """
import json, runpy, sys, traceback
from pathlib import Path

sys.path.insert(0, ".")
from core import step

plain = step.TrainingModel.gradients

def noted(self, batch):
    here = Path.cwd()
    frames = [(Path(frame.filename), frame.name) for frame in traceback.extract_stack()[:-1]]
    walk = []
    for path, name in frames:
        if here in path.parents:
            walk.append(f"{path.relative_to(here).as_posix()}:{name}")
        elif "keras" in path.parts and walk and walk[-1] != "keras":
            walk.append("keras")
    print("WALK", json.dumps([*walk, "core/step.py:gradients"]))
    raise SystemExit

step.TrainingModel.gradients = noted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_reading_path_is_short(template):
    lines = {name: count_lines(path) for name, path in reading_path(ROOT, template).items()}
    assert lines["train.py"] <= MOST_TRAIN_LINES
    assert sum(lines.values()) <= LINES.get(template, MOST_LINES), lines


def test_the_docs_name_these_limits():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    words = " ".join(text.split())
    limit = LINES["relation_extraction"]
    assert f"at most {limit:,} lines for relation extraction, {MOST_LINES:,} for any task" in words


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_chinese_table_has_the_same_files_in_chinese(template):
    rows, chinese = (
        reading_table(ROOT, template, key).splitlines()[2:] for key in READMES.values()
    )
    assert [row.split(" | ")[:2] for row in rows if "`" in row] == [
        row.split(" | ")[:2] for row in chinese if "`" in row
    ]
    assert all(re.search("[一-鿿]", row) for row in chinese)


def test_a_line_without_chinese_is_refused(monkeypatch):
    monkeypatch.setattr(reading_path_module, "read_glossary", lambda root: {})
    with pytest.raises(InputError, match="translate 'Train GPLinker.*' in its table"):
        reading_table(ROOT, "relation_extraction", READMES["README_zh.md"])


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_reading_path_is_closed(template):
    """Each name from elsewhere has a row in the glossary, which is in both READMEs."""
    rows = glossary(ROOT, template)
    assert len(rows) <= MOST_ROWS
    named = {name for names, _ in rows for name in names}
    assert named == set(outside_names(ROOT, template))
    for readme in ("README.md", "README_zh.md"):
        path = ROOT / "templates" / template / "{{cookiecutter.project_slug}}" / readme
        text = path.read_text(encoding="utf-8")
        table = text.partition("<!-- glossary: begin -->")[2].partition("<!-- glossary: end -->")[0]
        assert named <= set(re.findall(r"`([^`]+)`", table)), readme


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_glossary_explains_each_name(template):
    path = ROOT / "templates" / template / "{{cookiecutter.project_slug}}" / "README.md"
    lines = path.read_text(encoding="utf-8").splitlines()
    explained = dict(re.findall(r"^  - `(\w+)`: (.{15,})$", "\n".join(lines), flags=re.MULTILINE))
    assert explained.keys() == outside_names(ROOT, template).keys()


def test_the_glossary_has_no_sentence_that_no_path_needs():
    text = (ROOT / "generator/glossary.toml").read_text(encoding="utf-8")
    used = {name for template in TEMPLATES for name in outside_names(ROOT, template)}
    assert set(tomllib.loads(text)["names"]) <= used


@pytest.mark.trains
@pytest.mark.parametrize(
    "template",
    further(["relation_extraction", "seq2seq", "text_classification"], "relation_extraction"),
)
def test_few_hops_lead_from_the_script_to_the_gradient(template, tmp_path):
    project = bake_project(template, tmp_path, "none")
    command = [sys.executable, "-c", WALK, "train.py", *flags(project)]
    done = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8")
    found = [line for line in done.stdout.splitlines() if line.startswith("WALK ")]
    assert found, done.stdout + done.stderr
    walk = json.loads(found[0].removeprefix("WALK "))
    hops = [name for name in walk if not name.startswith("train.py:") and "errors.py" not in name]
    assert hops[-1] == "core/step.py:gradients" and "keras" in hops
    assert len(hops) <= MOST_HOPS, hops
