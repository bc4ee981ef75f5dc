"""A project stays small enough to be read: its settings, and the lines of its code."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from projects import TEMPLATES, bake_project

from core.base.extras import EXTRA_NAMES
from core.base.settings import SettingsTable, flatten
from generator.bake import bake

EXTRA = ROOT / "templates/extras"
MOST_FLAT_KEYS = 40
# Lines of Python, those of tests apart.
PROJECT = "scripts + task/ + core/"
DEFAULT = "default project"
BUDGETS_OF_RELATIONS = {PROJECT: 7273, DEFAULT: 9270}

PRINT_DEFAULTS = """
import json
from core.base.settings import with_tables
from task.settings import Settings
print(json.dumps(with_tables(Settings).model_construct().model_dump()))
"""


@pytest.fixture(scope="module", params=TEMPLATES)
def project(request, tmp_path_factory) -> Path:
    """A project with all extras."""
    return bake_project(request.param, tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="module")
def values(project) -> dict:
    """What config.toml holds."""
    return tomllib.loads((project / "config.toml").read_text(encoding="utf-8"))


def is_table(value: object) -> bool:
    return isinstance(value, dict)


# ---------------------------------------------------------------------- settings


def test_few_settings_are_flat(values):
    flat = [name for name, value in values.items() if not is_table(value)]
    print(f"{len(flat)} flat keys, {len(flatten(values)) - len(flat)} in tables")
    assert len(flat) <= MOST_FLAT_KEYS


def test_the_file_and_the_class_name_the_same_settings(project, values):
    done = subprocess.run(
        [sys.executable, "-c", PRINT_DEFAULTS], cwd=project, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    defaults = json.loads(done.stdout)
    assert list(flatten(values).keys() - flatten(defaults).keys()) == []
    assert list(flatten(defaults).keys() - flatten(values).keys()) == []
    extras = {name: table for name, table in defaults.items() if name in EXTRA_NAMES}
    assert {name: values[name] for name in extras} == extras


def test_every_setting_has_its_reason(project, values):
    lines = (project / "config.toml").read_text(encoding="utf-8").splitlines()
    settings = [line for line in lines if re.match(r"\w+\s*=", line)]
    assert len(settings) == len(flatten(values))
    assert [line for line in settings if not re.search(r"\S\s+# \S", line)] == []


@pytest.mark.parametrize("extra", EXTRA_NAMES)
def test_the_table_of_an_extra_is_that_of_its_class(extra):
    """Same keys, same defaults; an extra that has the one has the other."""
    path, folder = f"extras.{extra}.settings", EXTRA / extra
    module = importlib.import_module(path) if (folder / "settings.py").is_file() else None
    table = getattr(module, "Table", None)
    assert (table is not None) == (folder / "config.toml").is_file()
    if table is not None:
        text = (folder / "config.toml").read_text(encoding="utf-8")
        assert issubclass(table, SettingsTable)
        assert tomllib.loads(text) == {extra: table().model_dump()}
        assert all(field.description for field in table.model_fields.values())


# ------------------------------------------------------------------------- lines


def count_lines(*places: Path) -> int:
    """Return the lines of Python files, and of those in folders."""
    files = [
        file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])
    ]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def measure(template: str, folder: Path) -> dict[str, int]:
    """Return the lines of what the budgets name, of a project with the default answers."""
    project = bake(ROOT / "templates" / template, folder)
    scripts = sorted(project.glob("*.py"))
    core, task = project / "core", project / "task"
    return {
        PROJECT: count_lines(*scripts, task, core),
        DEFAULT: count_lines(*scripts, task, core, project / "extras"),
    }


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_keeps_within_its_lines(template, tmp_path, capsys):
    lines = measure(template, tmp_path)
    budgets = BUDGETS_OF_RELATIONS if template == "relation_extraction" else {}
    with capsys.disabled():
        print(f"\n{template}")
        for what, count in lines.items():
            print(f"  {count:>6} {f'of {budgets[what]}' if what in budgets else '':<8} {what}")
    assert {what: lines[what] for what in budgets if lines[what] > budgets[what]} == {}
