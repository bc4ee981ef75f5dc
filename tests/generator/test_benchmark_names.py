"""What the scripts in benchmarks/ import from a project is there, in the project of their task."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
# Relation extraction, unless the script or a function of it is about another task.
TEMPLATES = {
    "generation_speed": ["seq2seq"],
    "peer_pretraining": ["pretraining"],
    "peer_reading_comprehension": ["reading_comprehension"],
    "prediction_speed.open_questions": ["reading_comprehension"],
    "prediction_speed.open_pairs": ["text_classification"],
    "growth.open_batches": ["text_classification", "reading_comprehension", "relation_extraction"],
}


def find_module(name: str, project: Path) -> Path | None:
    """Return the file or folder of a module of a project; None: it has none."""
    for folder in (ROOT / "templates", project):
        path = folder / name.replace(".", "/")
        for found in (path.with_suffix(".py"), path):
            if found.exists():
                return found
    return None


def defined(module: Path) -> set[str]:
    """Return the names that a module defines or imports, and the modules of a folder."""
    if module.is_dir():
        return {path.stem for path in module.iterdir()}
    names: set[str] = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            parts = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                part.id for one in parts for part in ast.walk(one) if isinstance(part, ast.Name)
            }
    return names


def imports(script: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Yield function, module and the names used of it, for each import from a project."""
    for outer in ast.parse(script.read_text(encoding="utf-8")).body:
        for node in ast.walk(outer):
            head = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            if (head or "").split(".")[0] not in (
                "core",
                "extras",
                "task",
                "formats",
                "generation",
            ):
                continue
            for alias in node.names:
                yield getattr(outer, "name", ""), head, {alias.name}
                used = {
                    part.attr
                    for part in ast.walk(outer)
                    if isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.value.id == (alias.asname or alias.name)
                }
                yield getattr(outer, "name", ""), f"{head}.{alias.name}", used


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_names_of_a_project_are_there(script):
    for function, module, names in imports(script):
        default = TEMPLATES.get(script.stem, ["relation_extraction"])
        known: set[str] = set()
        for template in TEMPLATES.get(f"{script.stem}.{function}", default):
            project = ROOT / f"templates/{template}/{{{{cookiecutter.project_slug}}}}"
            if path := find_module(module, project):
                known |= defined(path)
        if known:
            assert names <= known, f"{function}: {module} lacks {names - known}"
        else:  # a name of a module, with attributes; or a module that is missing
            head, _, name = module.rpartition(".")
            assert name and find_module(head, project), f"{function}: {module} is missing"
