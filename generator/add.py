"""Add an extra to an existing project."""

import os
import shutil
import tempfile
from pathlib import Path
from types import ModuleType

from generator import InputError
from generator.bake import load_baking, read_origin
from generator.files import list_files, write_bytes, write_json
from generator.update import REPLACED, free_name, possible_strategy


def add_extra(root: Path, name: str, project: Path) -> str:
    """Add an extra, and those it needs, to a project's extras/ and to its .cookiecutter.json.

    Args:
        root: the repository.
        name: the extra.
        project: the project's folder.

    Returns:
        What its user has to know: the tables of config.toml that the project lacks, and files
        of theirs that got another place or stay as they are.

    Raises:
        InputError: there is no such extra, the project has it already, or it is not a project.
    """
    baking = load_baking(root / "templates")
    origin = read_origin(project)
    answers, template = origin["cookiecutter"], origin.get("template", "")
    known = baking.known_extras(template)
    if name in baking.known_extras() and name not in known:
        only = " and ".join(baking.declared_extras()[name].templates)
        raise InputError(f"{name} only serves projects of {only}, and this is {template}.")
    if name not in known:
        raise InputError(f"there is no extra {name!r}: the names are {', '.join(known)}.")
    if not (project / "core" / "base").is_dir():
        raise InputError(f"{project} has no core/base: it was made by another version.")
    extras, path = project / "extras", project / "extras" / "README.md"
    if (extras / name).exists():
        raise InputError(f"{extras / name} exists: delete that folder to get a fresh copy.")
    page = baking.own_extras_page(project)  # A broken extra is found before anything is changed.
    own = path.read_bytes().replace(b"\r\n", b"\n") if path.is_file() else page.encode()
    extras.mkdir(exist_ok=True)
    needed = [one for one in baking.with_needs([name]) if not (extras / one).exists()]
    joining = [name, *(one for one in needed if one != name)]
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=extras) as folder:
        for one in joining:
            render_files(root / "templates" / "extras" / one, Path(folder) / one, answers, baking)
        notes = bring_task_files(root / "templates" / template, project, joining, answers, baking)
        if not (extras / "__init__.py").is_file():
            shutil.copy(root / "templates" / "extras" / "__init__.py", extras)
        for one in joining:
            os.rename(Path(folder) / one, extras / one)
    if own == page.encode():
        baking.renew_extras_page(project)
    else:
        notes.append(f"{path} has changes of yours: it stays as it is, without the new extras.")
    present = [known_name for known_name in known if (extras / known_name).is_dir()]
    answers["extras"] = baking.normal_extras(",".join(present), template)
    answers["strategy"] = possible_strategy(answers.get("strategy", "auto"), present)
    write_json(project / ".cookiecutter.json", origin)
    said = "\n".join([*(baking.describe_added(project, one) for one in joining), *notes])
    here = {"version": baking.read_version(), "commit": baking.find_commit({})["commit"]}
    commits = {here["commit"], origin.get("commit") or here["commit"]}
    if origin.get("version") != here["version"] or (all(commits) and len(commits) > 1):
        said += (
            f"\nIt is of version {baking.describe_version(here)}, the project of "
            f"{baking.describe_version(origin)}: `baselines update` brings all of it to one."
        )
    return said


def bring_task_files(
    template: Path, project: Path, names: list[str], answers: dict[str, str], baking: ModuleType
) -> list[str]:
    """Write the files of the task that only these extras read; return a sentence of each copy.

    Such a file is there if the extra was deleted by hand: then it is of the version of that time.
    """
    declared, notes = baking.declared_extras(), []
    for path in (path for name in names for path in declared[name].task_files):
        source, target = template / baking.PROJECT / path, project / path
        if not source.is_file():
            continue
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=project) as folder:
            render_files(source.parent, Path(folder), answers, baking, only=source.name)
            made = Path(folder) / source.name
            if target.is_file() and target.read_bytes() != made.read_bytes():
                copy = project / free_name(project, f"{REPLACED}/{path}")
                write_bytes(copy, target.read_bytes())
                notes.append(f"{path} was another one: that is {copy.relative_to(project)} now.")
            os.replace(made, target)
    return notes


def render_files(
    source: Path, target: Path, answers: dict[str, str], baking: ModuleType, only: str = ""
) -> None:
    """Write an extra, or one file of a task, as baking would write it.

    Args:
        source: its folder in the templates.
        target: the folder to create.
        answers: of the project.
        baking: the module templates/baking.py.
        only: the name of a file; empty: all are written.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    for path in [Path(only)] if only else sorted(list_files(source)):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target / path)
        text = (source / path).read_text(encoding="utf-8")
        if baking.is_rendered(path.name, text):
            rendered = environment.from_string(text).render(cookiecutter=answers)
            (target / path).write_text(rendered, encoding="utf-8", newline="\n")
