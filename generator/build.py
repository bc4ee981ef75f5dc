"""Build what is generated: the copies of the shared code, the samples, and every baseline."""

import difflib
import importlib
import shutil
import tempfile
from pathlib import Path

import tomlkit
from tqdm import tqdm

from generator.bake import LEFTOVERS, bake
from generator.baselines import Baseline, read_baselines
from generator.encoders import ENCODER
from generator.errors import InputError
from generator.files import write_text
from generator.paths import template_project
from generator.scores import READMES, update_readmes

# The check of the answers, which cookiecutter finds beside a template's cookiecutter.json.
ANSWERS = "project_answers.py"
# What starts the workers of a cluster: a script, and files for those who run clusters.
LAUNCHER = "launch.py"
REFERENCE = ("scores.json", "predictions/dev.jsonl")
# What `reproduce` makes in a baseline's folder: building leaves it alone.
MADE_BY_RUNS = ("scores.json", "predictions", "data", ENCODER)


def build_repository(root: Path, progress: bool = True) -> None:
    """Write everything in the repository that is generated.

    Args:
        root: the repository.
        progress: show a progress bar.

    Raises:
        InputError: an entry of baselines.toml does not fit its template.
    """
    baselines = read_baselines(root).values()
    for template in template_names(root):
        fill_template(root, template)
    with tqdm(baselines, desc="bake", disable=not progress) as bar:
        for baseline in bar:
            bar.set_postfix_str(baseline.name)
            bake_baseline(root, baseline)
    update_readmes(root)


def template_names(root: Path) -> list[str]:
    """Return the names of the templates, which are their folders."""
    return sorted(path.parent.name for path in (root / "templates").glob("*/cookiecutter.json"))


def fill_template(root: Path, template: str) -> None:
    """Give a template its copies of the shared code, its sample and its reference."""
    project = template_project(root, template)
    copy_tree(root / "templates" / "common", project / "common")
    copy_tree(root / "templates" / "launch", project / "launch")
    copy_file(root / "templates" / LAUNCHER, project / LAUNCHER)
    copy_file(root / "templates" / ANSWERS, root / "templates" / template / ANSWERS)
    sample = importlib.import_module(f"generator.samples.{template}")
    with tempfile.TemporaryDirectory() as folder:
        sample.write_sample(Path(folder))
        copy_tree(Path(folder), project / "sample")
    for name in REFERENCE:
        source = root / "baselines" / f"{template}_sample" / name
        if source.is_file():
            copy_file(source, project / "reference" / name)


def bake_baseline(root: Path, baseline: Baseline) -> None:
    """Bake a baseline's project and put it in the place of the old one."""
    with tempfile.TemporaryDirectory() as folder:
        answers = {**baseline.answers, "project_slug": baseline.name}
        project = bake(root / "templates" / baseline.template, Path(folder), answers)
        apply_settings(project / "config.toml", baseline)
        copy_tree(project, baseline.folder(root), keep=MADE_BY_RUNS)


def apply_settings(path: Path, baseline: Baseline) -> None:
    """Write a baseline's settings into its config.toml; the comments stay.

    Raises:
        InputError: config.toml has no such setting.
    """
    if not baseline.settings:
        return
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    tables = [document, *(value for value in document.values() if isinstance(value, dict))]
    for name, value in baseline.settings.items():
        table = next((table for table in tables if name in table), None)
        if table is None:
            raise InputError(
                f"baselines.toml, {baseline.name}: config.toml has no setting {name!r}: mend the"
                " name."
            )
        table[name] = value
    write_text(path, tomlkit.dumps(document))


def copy_tree(source: Path, target: Path, keep: tuple[str, ...] = ()) -> None:
    """Make `target` equal to `source`, writing and deleting only what differs.

    Args:
        source: a folder.
        target: the folder that becomes a copy.
        keep: files and folders right inside of `target` that stay as they are.
    """
    wanted = list_files(source)
    for path in list_files(target) - wanted:
        if path.parts[0] not in keep:
            (target / path).unlink()
            remove_empty_folders(target, (target / path).parent)
    for path in wanted:
        copy_file(source / path, target / path)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file unless the copy is there already."""
    if not target.is_file() or target.read_bytes() != source.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def list_files(folder: Path) -> set[Path]:
    """Return the files in a folder, relative to it, without what running them left behind."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path for path in paths if not set(path.parts) & set(LEFTOVERS)}


def remove_empty_folders(root: Path, folder: Path) -> None:
    """Remove a folder and those above it, below `root`, as long as they are empty."""
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def differences(root: Path) -> list[str]:
    """Build in a copy of the repository and compare.

    Returns:
        The lines of a unified diff from what is there to what would be built.
    """
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder)
        for part in ("templates", "generator", "benchmarks"):
            copy_part(root / part, built / part)
        for baseline in sorted(path.name for path in (root / "baselines").glob("*/")):
            copy_part(root / "baselines" / baseline, built / "baselines" / baseline)
        for name in (*READMES, "cookiecutter.json"):
            if (root / name).is_file():
                copy_file(root / name, built / name)
        remove_unlisted(built)
        build_repository(built, progress=False)
        parts = [diff(root, built, part) for part in ("templates", "baselines")]
        readmes = [diff_file(root, built, Path(name)) for name in READMES]
        return [line for lines in parts + readmes for line in lines]


def copy_part(source: Path, target: Path) -> None:
    """Copy a part of the repository without the data of baselines."""
    for path in list_files(source):
        if path.parts[0] != "data":
            copy_file(source / path, target / path)


def remove_unlisted(root: Path) -> None:
    """Remove the baselines that baselines.toml does not list."""
    listed = read_baselines(root)
    for folder in (root / "baselines").glob("*/"):
        if folder.name not in listed:
            shutil.rmtree(folder)


def diff(root: Path, built: Path, part: str) -> list[str]:
    """Compare a folder of the repository with the built one."""
    lines = []
    for path in sorted(list_files(root / part) | list_files(built / part)):
        made_by_runs = part == "baselines" and len(path.parts) > 1 and path.parts[1] in MADE_BY_RUNS
        if not made_by_runs:
            lines += diff_file(root, built, Path(part) / path)
    return lines


def diff_file(root: Path, built: Path, path: Path) -> list[str]:
    """Compare one file; an absent one counts as empty."""
    old, new = (
        (folder / path).read_bytes() if (folder / path).is_file() else None
        for folder in (root, built)
    )
    if old == new:
        return []
    name = path.as_posix()
    lines = list(
        difflib.unified_diff(
            (old or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True),
            (new or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True),
            f"{name} (in the repository)" if old is not None else f"{name} (absent)",
            f"{name} (as built)" if new is not None else f"{name} (not built)",
        )
    )
    return [line if line.endswith("\n") else line + "\n" for line in lines] or [f"{name} differs\n"]
