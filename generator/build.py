"""Build all generated files, baselines and tables; compare the repository with the build."""

import difflib
import importlib
import shutil
import tempfile
from pathlib import Path

from tqdm import tqdm

from generator.bake import MADE_BY_RUNS, SAMPLE
from generator.baselines import ENCODER, REFERENCE, Baseline, read_baselines
from generator.document_tables import TABLES, update_documents
from generator.extra_tables import write_extras, written_files
from generator.files import copy_file, copy_tree, list_files, remove_empty_folders
from generator.git import run_git
from generator.reading_path import update_reading_paths
from generator.recipe_pages import PAGE
from generator.recipes import bake_recipe

# Building keeps these in a baseline's folder: made by runs or `reproduce`, or fetched.
LARGE = ("data", *MADE_BY_RUNS)
KEPT = (*LARGE, ENCODER)
# The results of a recipe; a sample's results are its reference.
RESULTS = ("scores.json", "predictions")
# Folders and files that are compared.
COPIED = ("templates", "generator", "baselines", "benchmarks", "docs")


def build_repository(root: Path, progress: bool = True) -> None:
    """Write all generated files of the repository.

    Args:
        root: the repository.
        progress: show a progress bar.

    Raises:
        InputError: an entry of baselines.toml does not fit its template.
    """
    write_extras(root)
    with tqdm(read_baselines(root).values(), desc="bake", disable=not progress) as bar:
        for baseline in bar:
            bar.set_postfix_str(baseline.name)
            if baseline.is_sample:
                make_sample(root, baseline)
            if baseline.baked:
                bake_project(root, baseline)
            else:
                tidy_folder(root, baseline)
    update_documents(root)


def make_sample(root: Path, baseline: Baseline) -> None:
    """Rewrite the sample of a template, and the table in its READMEs.

    The template gets sample and reference from there; nothing removes them while it is baked.
    """
    sample = importlib.import_module(f"generator.samples.{baseline.template}")
    with tempfile.TemporaryDirectory() as folder:
        sample.write_sample(Path(folder))
        copy_tree(Path(folder), baseline.folder(root) / "sample")
    update_reading_paths(root, baseline.template)


def bake_project(root: Path, baseline: Baseline) -> None:
    """Bake a baseline around its results."""
    with tempfile.TemporaryDirectory() as folder:
        project = bake_recipe(root, baseline, Path(folder))
        own = (*results_of(baseline), *ignored(baseline.folder(root)))
        copy_tree(project, baseline.folder(root), keep=(*KEPT, *own))


def tidy_folder(root: Path, baseline: Baseline) -> None:
    """Remove everything but the results and the page of a baseline."""
    folder = baseline.folder(root)
    for path in list_files(folder, but=(*KEPT, *results_of(baseline), PAGE)):
        (folder / path).unlink()
        remove_empty_folders(folder, (folder / path).parent)


def ignored(folder: Path) -> list[str]:
    """Return the names in a folder that git ignores, as `.venv`; none: it is not in a clone."""
    listed = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    done = run_git("-C", folder, *listed)
    names = done.stdout.decode().split("\0") if done.returncode == 0 else []
    return [name.rstrip("/") for name in names if name and "/" not in name.rstrip("/")]


def results_of(baseline: Baseline) -> tuple[str, ...]:
    """Return the unbaked parts of a baseline's folder: results and a sample."""
    return SAMPLE if baseline.is_sample else RESULTS


# ------------------------------------------------------------------------------------- check


def differences(root: Path) -> list[str]:
    """Build in a copy of the repository and compare.

    Returns:
        The lines of a unified diff from the repository to the build.
    """
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder)
        for name in COPIED:
            for path in list_files(root / name):
                if not (name == "baselines" and path.parts[1] in LARGE):
                    copy_file(root / name / path, built / name / path)
        for name in {*TABLES, "cookiecutter.json"}:
            if (root / name).is_file():
                copy_file(root / name, built / name)
        remove_unlisted(built)
        build_repository(built, progress=False)
        paths = set[Path]()
        for repository in (root, built):
            paths |= {Path(name) for name in TABLES}
            paths |= generated_files(repository) | written_files(repository)
        return [line for path in sorted(paths) for line in diff_file(root, built, path)]


def remove_unlisted(root: Path) -> None:
    """Remove baselines that baselines.toml does not list."""
    listed = read_baselines(root)
    for folder in (root / "baselines").glob("*/"):
        if folder.name not in listed:
            shutil.rmtree(folder)


def generated_files(root: Path) -> set[Path]:
    """Return the files that building writes whole, relative to the repository."""
    baselines = read_baselines(root)
    found = set()
    for folder in (root / "baselines").glob("*/"):
        sample = folder.name in baselines and baselines[folder.name].is_sample
        made = (REFERENCE,) if sample else RESULTS
        found |= {(folder / path).relative_to(root) for path in list_files(folder, (*KEPT, *made))}
    return found


def diff_file(root: Path, built: Path, path: Path) -> list[str]:
    """Compare one file; an absent file counts as empty."""
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
