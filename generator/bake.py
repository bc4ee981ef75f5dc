"""Bake a template into a project, identically on every machine."""

import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from generator import InputError
from generator.files import (
    CACHES,
    PROJECT_FOLDER,
    check_folder,
    copy_file,
    copy_tree,
    write_json,
)

# Left by runs in a project folder, never part of the project.
MADE_BY_RUNS = ("runs", "shards", "vocabulary")
# What a template needs besides its own folder, and of the baseline of its sample.
SHARED = ("baking.py", "declared.py", "core", "extras", "hooks", "shared")
SAMPLE = ("sample", "reference")
VERSION = "generator/__init__.py"
# In templates/ of a copy that is no clone: which commit it is of.
ORIGIN_NOTE = ".origin.json"
# What a project keeps of the version that it was made from.
ORIGIN_TEXTS = ("version", "template", "address", "commit")
# What file systems take, in bytes; templates refuse a project's name that is longer.
LONGEST_NAME = 255


def bake(template: Path, parent: Path, answers: dict[str, str] | None = None) -> Path:
    """Generate a project from a template.

    The template is copied first, so nothing is written into the repository. Untracked files and the
    user's cookiecutter configuration have no effect.

    Args:
        template: the folder of a template, with its cookiecutter.json.
        parent: the folder that gets the project's folder.
        answers: the ones that differ from the defaults.

    Returns:
        The project's folder.

    Raises:
        InputError: an answer is wrong, or the project's folder exists and is not empty.
    """
    from cookiecutter.exceptions import CookiecutterException
    from cookiecutter.main import cookiecutter
    from jinja2 import TemplateError

    answers = answers or {}
    slug = answers.get("project_slug", "")
    check_folder(parent)
    there = 0 < len(slug) <= LONGEST_NAME and (parent / slug).exists()
    if there:
        check_folder(parent / slug)
        if any((parent / slug).iterdir()):
            raise InputError(f"{parent / slug} is not empty: bake into an empty folder.")
    with tempfile.TemporaryDirectory() as private:
        clean = copy_template(template, Path(private).resolve() / "templates")
        forget_extension(clean)
        try:
            project = Path(
                cookiecutter(
                    str(clean),
                    no_input=True,
                    extra_context=answers,
                    output_dir=str(parent),
                    default_config={"replay_dir": private, "cookiecutters_dir": private},
                    accept_hooks=False,  # The hooks would print; the code below does their work.
                    overwrite_if_exists=there,
                )
            )
        except SystemExit as refusal:  # The template's own check of the answers.
            raise InputError(str(refusal).removeprefix("error: ")) from refusal
        except (CookiecutterException, TemplateError, UnicodeError) as error:
            raise InputError(f"{template.name} cannot be baked into {parent}: {error}") from error
        except OSError as error:
            reason = getattr(error.__cause__ or error, "strerror", None) or error
            raise InputError(
                f"{parent} cannot hold the project's folder ({reason}): name another folder."
            ) from error
        finally:
            forget_extension(clean)
        baking = load_baking(clean.parent)
        chosen = baking.chosen_extras(read_answers(project)["extras"], template.name)
        unwanted = [name for name in baking.known_extras() if name not in chosen]
        baking.delete_extras(project, unwanted)
    return project


def copy_template(template: Path, target: Path) -> Path:
    """Copy a template and the files it needs; return the copied folder."""
    # Files from the last bake are copied again.
    brought = ("core", "extras", *SAMPLE, *MADE_BY_RUNS)
    left_out = {template / "hooks", *(template / PROJECT_FOLDER / name for name in brought)}

    def leave_out(folder: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name in CACHES or name.startswith(".writing-") or Path(folder, name) in left_out
        ]

    for name in (*SHARED, template.name):
        source = template.parent / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=leave_out)
        elif source.is_file():
            target.mkdir(exist_ok=True)
            shutil.copy(source, target / name)
    root, baseline = template.parent.parent, Path("baselines", f"{template.name}_sample")
    for name in SAMPLE:
        copy_tree(root / baseline / name, target.parent / baseline / name)
    if (root / VERSION).is_file():
        copy_file(root / VERSION, target.parent / VERSION)
    return target / template.name


def forget_extension(template: Path) -> None:
    """Forget a template's extension module, because another clone's has the same name."""
    sys.modules.pop(f"{template.name}_extension", None)
    sys.path_importer_cache.pop(str(template), None)
    importlib.invalidate_caches()


def load_baking(templates: Path) -> ModuleType:
    """Return templates/baking.py of a repository as a module."""
    specification = importlib.util.spec_from_file_location("baking", templates / "baking.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def read_answers(project: Path) -> dict[str, str]:
    """Return the answers of a baked project.

    Raises:
        InputError: the folder is not a project, or its answers are broken.
    """
    return read_origin(project)["cookiecutter"]


def read_origin(project: Path) -> dict[str, Any]:
    """Return a project's .cookiecutter.json: its answers and the baking version.

    Raises:
        InputError: as `read_answers`.
    """
    path = project / ".cookiecutter.json"
    try:
        origin = json.loads(path.read_text(encoding="utf-8"))
        answers = {**origin["cookiecutter"]}
        answers.setdefault("extras", "none")
        texts = {"project_slug": answers["project_slug"]}
        texts |= {name: origin[name] for name in ORIGIN_TEXTS if name in origin}
        for name, value in texts.items():
            if not isinstance(value, str):
                raise ValueError(f"{name} is {value!r}, no text")
        return {**origin, "cookiecutter": answers}
    except FileNotFoundError as error:
        raise InputError(f"{project} has no {path.name}: name a project's folder.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} is broken ({error}): restore it; it should read"
            ' {"version": ..., "template": ..., "cookiecutter": {"project_slug": "NAME", ...}}.'
        ) from error


def keep_origin(root: Path, project: Path) -> None:
    """Write into a project's .cookiecutter.json which commit of the repository it was made from."""
    origin = read_origin(project)
    answers = origin.pop("cookiecutter")
    found = load_baking(root / "templates").find_commit({})
    write_json(project / ".cookiecutter.json", {**origin, **found, "cookiecutter": answers})
