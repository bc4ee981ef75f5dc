"""From a recipe of baselines.toml to a project: permanent, or in build/ with its data."""

import json
import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import tomlkit
from tomlkit.items import Table

from generator import InputError
from generator.bake import MADE_BY_RUNS, bake, load_baking, read_answers
from generator.baselines import ENCODER, Baseline, own_encoder
from generator.data_sets.convert import get_data_set
from generator.data_sets.registry import SPLITS, find_data_set
from generator.files import copy_tree, sha256, write_bytes, write_text
from generator.run_scripts import PREPARATION, project_code_hash

QUESTIONS = ("project_slug", "encoder", "data_folder", "strategy", "extras")
# Left in a project in build/ by its runs and the commands around them.
KEPT = (*MADE_BY_RUNS, "data", ENCODER)


def bake_recipe(
    root: Path, baseline: Baseline, parent: Path, answers: dict[str, str] | None = None
) -> Path:
    """Bake the project of a baseline.

    Args:
        root: the repository.
        baseline: the recipe.
        parent: the folder in which the project's folder is made.
        answers: those that differ from the recipe's.

    Returns:
        The project's folder.

    Raises:
        InputError: an answer is bad, a setting does not exist, or the folder is not empty.
    """
    answers = {**baseline.answers, "project_slug": baseline.name, **(answers or {})}
    there = os.path.exists(parent / answers["project_slug"])  # of an impossible name not
    project = bake(root / "templates" / baseline.template, parent, answers)
    try:
        apply_settings(project / "config.toml", baseline)
    except InputError:
        shutil.rmtree(project)
        if there:
            project.mkdir()
        raise
    return project


def bake_whole(
    root: Path, baseline: Baseline, parent: Path, answers: dict[str, str] | None = None
) -> Path:
    """Bake a self-contained project: an encoder made in this repository goes with it.

    Args:
        root: the repository.
        baseline: the recipe.
        parent: the folder in which the project's folder is made.
        answers: those that differ from the recipe's.

    Raises:
        InputError: as `bake_recipe`, or the encoder is not made yet.
    """
    encoder = None if "encoder" in (answers or {}) else own_encoder(baseline, root)
    if encoder:
        own = {name: value for name, value in baseline.settings.items() if name != "encoder"}
        # Another default of `extras` would change the code that was scored.
        changed = {"extras": "comparison, doctor", **baseline.answers, "encoder": ENCODER}
        baseline = replace(baseline, settings=own, answers=changed)
    project = bake_recipe(root, baseline, parent, answers)
    if encoder:
        shutil.copytree(encoder, project / ENCODER)
    return project


def working_project(root: Path, baseline: Baseline, extras: str | None = None) -> Path:
    """Return a baseline's project in build/, updated from the templates; its runs stay.

    Args:
        root: the repository.
        baseline: the recipe.
        extras: replaces the recipe's answer; the project then has its own folder.
    """
    name = f"{baseline.name}_with_{extras}" if extras else baseline.name
    with tempfile.TemporaryDirectory() as folder:
        project = bake_recipe(root, baseline, Path(folder), {"extras": extras} if extras else {})
        copy_tree(project, root / "build" / name, keep=KEPT)
    return root / "build" / name


def prepare_data(baseline: Baseline, project: Path, local: Path | None) -> str:
    """Fetch a baseline's data if missing; return its folder inside the project.

    Raises:
        InputError: `local` is no folder, or the baseline has data of its own.
    """
    if local and not local.is_dir():
        raise InputError(f"{local} is no folder: check --from.")
    if baseline.local_files:
        return copy_local(baseline, project / "data", local)
    if not baseline.data_set:
        if local:
            raise InputError(f"{baseline.name} is trained on its own sample: leave --from out.")
        return "sample"
    folder = project / "data" / baseline.data_set
    pinned = find_data_set(baseline.data_set).hashes
    paths = {split: folder / f"{split}.jsonl" for split in SPLITS}
    if any(
        not path.is_file() or sha256(path.read_bytes()) != pinned[split]
        for split, path in paths.items()
    ):
        get_data_set(baseline.data_set, folder, local)
    return f"data/{baseline.data_set}"


def copy_local(baseline: Baseline, folder: Path, local: Path | None) -> str:
    """Copy the user's own data, including a test file if there is one; return its folder.

    Raises:
        InputError: the user named no folder, or it lacks a file.
    """
    if local:
        missing = [name for name in baseline.local_files if not (local / name).is_file()]
        if missing:
            raise InputError(f"{local} holds no {' and no '.join(missing)}: check --from.")
        for path in sorted(local.iterdir()):
            if path.name in baseline.local_files or path.stem == "test":
                write_bytes(folder / path.name, path.read_bytes())
    missing = [name for name in baseline.local_files if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{baseline.name} is trained on data that can't be fetched: name a folder that holds "
            f"{' and '.join(baseline.local_files)} with --from."
        )
    return folder.name


def apply_settings(path: Path, baseline: Baseline) -> None:
    """Write a baseline's settings into a config.toml and keep its comments.

    Raises:
        InputError: config.toml has no such setting.
    """
    if not baseline.settings:
        return
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    for name, value in baseline.settings.items():
        table, _, key = name.rpartition(".")
        holder = document.get(table) if table else document
        if not isinstance(holder, tomlkit.TOMLDocument | Table) or key not in holder:
            raise InputError(
                f"{baseline.name} sets {name!r}, which config.toml of this project does not have: "
                + (
                    f"name the extra {table} too, as extras=..., {table}."
                    if table and table not in document
                    else "correct its recipe in baselines.toml."
                )
            )
        holder[key] = value
    write_text(path, tomlkit.dumps(document))


def describe_settings(baseline: Baseline) -> str:
    """Return a recipe's settings in the format of config.toml."""
    document = tomlkit.document()
    for name, value in baseline.settings.items():
        table, _, key = name.rpartition(".")
        holder = document.setdefault(table, tomlkit.table()) if table else document
        holder[key] = value
    return tomlkit.dumps(document).strip()


def read_arguments(words: list[str] | None) -> dict[str, str]:
    """Return the answers on a command line.

    Args:
        words: such as `extras=all`.

    Raises:
        InputError: one has no `=`, names no question, or answers one again.
    """
    answers: dict[str, str] = {}
    for word in words or []:
        name, equals, answer = word.partition("=")
        if name not in QUESTIONS:
            raise InputError(
                f"there is no question {name!r}: write NAME=ANSWER, with a NAME of"
                f" {', '.join(QUESTIONS)}."
            )
        if not equals:
            raise InputError(f"{word!r} is no answer: write NAME=ANSWER, as extras=all.")
        if name in answers:
            raise InputError(f"{name} is answered twice: give one answer.")
        answers[name] = answer
    return answers


def describe_next(baseline: Baseline, project: Path) -> str:
    """Return the next commands for a freshly baked project, one per line."""
    lines = [f"cd {shlex.quote(str(project))}"]
    folder = read_answers(project)["data_folder"]
    if baseline.data_set:
        lines.append(f"baselines data get {baseline.data_set} --to {shlex.quote(folder)}")
    lines += (
        [f"# put {' and '.join(baseline.local_files)} into {folder}"]
        if baseline.local_files
        else []
    )
    scripts = [name for name in (PREPARATION, "train.py") if (project / name).is_file()]
    return "\n".join([*lines, "pip install -r requirements.txt", *(f"python {n}" for n in scripts)])


class CodeHashes:
    """The hashes of the templates' current code.

    Code depends only on template and extras, and the default of `extras` on the encoder. So one
    project of each template is baked, with all extras, and those of a baseline are looked at.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.baking = root, load_baking(root / "templates")
        self.folder = tempfile.TemporaryDirectory()
        self.whole: dict[str, Path] = {}
        self.known: dict[tuple[str, ...], str] = {}

    def find(self, baseline: Baseline) -> str:
        """Return the hash of a baseline's code."""
        key = (baseline.template, *self.extras_of(baseline))
        if key not in self.known:
            left_out = {*self.baking.known_extras()} - {*key[1:]}

            def is_unwanted(folder: str, names: list[str]) -> set[str]:
                return left_out & {*names} if Path(folder).name == "extras" else set()

            with tempfile.TemporaryDirectory() as folder:
                project = Path(folder, "project")
                shutil.copytree(self.bake_whole(key[0]), project, ignore=is_unwanted)
                self.known[key] = project_code_hash(project)
        return self.known[key]

    def extras_of(self, baseline: Baseline) -> list[str]:
        """Return the extras of a baseline; without an answer, the template's default."""
        import jinja2

        template = self.root / "templates" / baseline.template
        questions = json.loads((template / "cookiecutter.json").read_text(encoding="utf-8"))
        answers = {"encoder": questions["encoder"], **baseline.answers}
        default = jinja2.Template(questions["extras"]).render(cookiecutter=answers)
        return self.baking.chosen_extras(answers.get("extras", default), baseline.template)

    def bake_whole(self, template: str) -> Path:
        """Return a project of a template with all extras."""
        if template not in self.whole:
            parent = Path(self.folder.name, template)
            parent.mkdir()
            self.whole[template] = bake(
                self.root / "templates" / template, parent, {"extras": "all"}
            )
        return self.whole[template]
