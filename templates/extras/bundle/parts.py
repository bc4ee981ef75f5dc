"""What a bundle has of a project: the files that predict.py needs, and runs with their weights."""

import ast
import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.extras import present
from core.base.files import (
    MANIFEST,
    PROJECT,
    file_hash,
    hash_of_files,
    project_path,
    read_json,
    write_json,
)
from core.encoders.encoder import local_folder
from core.runs.members import blended_runs, find_run, members
from core.runs.scores import read_scores
from extras.bundle.float16_weights import write_float16

SCRIPT = "predict.py"
BLENDS = "extras/blends/blends.py"
WEIGHTS = "best.weights.h5"
# Extras without which predictions are the same.
APART: tuple[str, ...] = (
    "bundle",
    "cache",
    "cluster",
    "comparison",
    "doctor",
    "export",
    "folds",
    "orbit",
)
APART += ("parameter_server", "runs_table", "search", "tpu")
# The files of a run that predict; those of its manifest join them.
OF_A_RUN = ("config.json", "encoder.json", "tokenizer.json", "labels.json", "scores.json", WEIGHTS)
SKIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
SAMPLES = "samples"  # folder of a bundle's project for the samples of submissions
ENCODERS = "encoders"  # folder of a bundle's project for encoders that runs read again


# --------------------------------------------------------------------------------- project


def copy_project(target: Path, blends: bool) -> None:
    """Copy the scripts and packages that predict.py imports, and the extras that may predict.

    Args:
        target: folder of the project of a bundle.
        blends: whether blends are among its runs.
    """
    target.mkdir()
    for path in needed_paths([PROJECT / BLENDS] if blends else []):
        if path.is_dir():
            shutil.copytree(path, target / path.name, ignore=SKIPPED)
        else:
            shutil.copy(path, target / path.name)
    for name in ("config.toml", "requirements.txt"):
        shutil.copy(PROJECT / name, target / name)
    (target / "extras").mkdir()
    shutil.copy(PROJECT / "extras/__init__.py", target / "extras/__init__.py")
    for name in (name for name in present() if name not in APART):
        shutil.copytree(PROJECT / "extras" / name, target / "extras" / name, ignore=SKIPPED)


def needed_paths(others: Sequence[Path]) -> list[Path]:
    """Return the scripts and folders of this project that predict.py imports, itself among them.

    Args:
        others: files of extras, whose imports are needed too.
    """
    found, waiting = {PROJECT / SCRIPT}, [PROJECT / SCRIPT, *others]
    while waiting:
        for name in imported_names(waiting.pop()):
            for path in (PROJECT / f"{name}.py", PROJECT / name):
                if path.exists() and path not in found and name != "extras":
                    found.add(path)
                    waiting.append(path)
    return sorted(found)


def imported_names(path: Path) -> Iterator[str]:
    """Yield the first part of each module that a script, or a folder of them, imports."""
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (one.name.partition(".")[0] for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


# ------------------------------------------------------------------------------------ runs


def check_finished(folders: Iterable[Path]) -> None:
    """Refuse runs whose training has not ended.

    Raises:
        InputError: names the run.
    """
    for folder in folders:
        if "finished" not in read_scores(folder):
            raise InputError(
                f"{folder.name} is not finished: let train.py end it with the command that began "
                "it, then bundle it."
            )


def name_runs(names: Sequence[str]) -> dict[str, Path]:
    """Return the name in runs/ of a bundle -> the folder of each run that was named.

    Raises:
        InputError: two runs have the same name, or a blend is not the only one.
    """
    found: dict[str, Path] = {}
    for name in names:
        folder = find_run(name).resolve()
        own = name_in_bundle(folder)
        if len(names) > 1 and blended_runs(folder):
            raise InputError(
                f"{own} is a blend, which predicts by itself: bundle it without other runs."
            )
        if own in found:
            raise InputError(f"two runs are called {own}: rename the folder of one.")
        found[own] = folder
    return found


def name_in_bundle(folder: Path) -> str:
    """Return the name of a run in a bundle: its place in runs/, or the name of its folder."""
    home = (PROJECT / "runs").resolve()
    inside = folder.is_relative_to(home) and folder != home
    return folder.relative_to(home).as_posix() if inside else folder.name


def with_parts(named: dict[str, Path]) -> dict[str, Path]:
    """Return the named runs and, before each blend, the runs that it blends.

    Raises:
        InputError: two runs have the same name.
    """
    found: dict[str, Path] = {}
    for name, folder in named.items():
        runs = [run.resolve() for run in blended_runs(folder)]
        parts = with_parts({name_in_bundle(run): run for run in runs})
        if len({name_in_bundle(run) for run in runs}) < len(runs) or any(
            found.get(part, own) != own for part, own in parts.items()
        ):
            raise InputError(f"two runs of {name} have the same name: rename the folder of one.")
        found |= parts | {name: folder}
    return found


def copy_runs(named: dict[str, Path], folders: Sequence[Path], target: Path, half: bool) -> int:
    """Copy runs into the project of a bundle.

    Args:
        named: from `with_parts`: cross-validations and blends are among them.
        folders: of the models: each run, or each of its folds.
        target: folder of the project.
        half: whether the weights become float16.

    Returns:
        Number of arrays that don't fit into float16, and stay as they are.
    """
    kept = 0
    for name, folder in named.items():
        place = target / "runs" / name
        for own in (one for one in folders if one.is_relative_to(folder)):
            kept += copy_run(own, place / own.relative_to(folder), target, half)
        if folder not in folders:  # a cross-validation or a blend, which has the threshold
            copy_files(folder, place, ["config.json", "scores.json"])
        if blended_runs(folder):
            write_json(place / "config.json", moved_blend(folder, target))
        parent = folder.parent
        if (parent / "scores.json").is_file():  # one fold: its threshold is its parent's
            copy_files(parent, place.parent, ["scores.json"])
    return kept


def moved_blend(folder: Path, project: Path) -> dict[str, Any]:
    """Return the settings of a blend whose runs were copied into the project of a bundle."""
    config = read_json(folder / "config.json")
    runs = [f"runs/{name_in_bundle(run.resolve())}" for run in blended_runs(folder)]
    weights = [place / WEIGHTS for place in places_of_models(folder, project)]
    places = [project / "runs" / name_in_bundle(run.resolve()) for run in blended_runs(folder)]
    # As extras/blends counts them: a blend among the runs has weights of its own.
    fitted = [place / "config.json" for place in places if not (place / WEIGHTS).is_file()]
    changed = hash_of_files([*weights, *filter(is_blend, fitted)])
    return {**config, "blend": {**config["blend"], "runs": runs, "files_hash": changed}}


def is_blend(config: Path) -> bool:
    """Return whether the settings are those of a blend, and not of a cross-validation."""
    return "blend" in read_json(config)


def places_of_models(folder: Path, project: Path) -> list[Path]:
    """Return where the models of a run, or of those of a blend, are in the project of a bundle."""
    if runs := blended_runs(folder):
        return [place for run in runs for place in places_of_models(run.resolve(), project)]
    place = project / "runs" / name_in_bundle(folder)
    return [place / own.relative_to(folder) for own in members(folder)]


def copy_run(folder: Path, place: Path, project: Path, half: bool) -> int:
    """Copy what predicts of one run; return the number of arrays that stay float32."""
    manifest = read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    copy_files(folder, place, {*OF_A_RUN, *manifest} - {WEIGHTS})
    config = read_json(place / "config.json")
    write_json(place / "config.json", with_sample(with_encoder(config, project), project))
    kept = write_float16(folder / WEIGHTS, place / WEIGHTS) if half else 0
    if not half:
        shutil.copy(folder / WEIGHTS, place / WEIGHTS)
    names = [name for name, known in manifest.items() if known and (place / name).is_file()]
    if names:
        write_json(place / MANIFEST, {name: file_hash(place / name) for name in names})
    return kept


def copy_files(folder: Path, place: Path, names: Iterable[str]) -> None:
    """Copy the files that a folder has of the given names."""
    place.mkdir(parents=True, exist_ok=True)
    for name in sorted(names):
        if (folder / name).is_file():
            shutil.copy(folder / name, place / name)


def with_encoder(config: dict[str, Any], project: Path) -> dict[str, Any]:
    """Return the settings of a run; low-rank updates need the files of their encoder, which join.

    Raises:
        InputError: the encoder has no folder that could be copied.
    """
    encoder = config.get("encoder", "tiny")
    if encoder == "tiny" or not config.get("lora", {}).get("rank", 0):
        return config
    folder = local_folder(encoder)
    if folder is None:
        raise InputError(
            f"encoder = {encoder!r} is a preset, which lora reads again when it predicts: save it "
            "in a folder, and train with that."
        )
    folder = folder.resolve()
    # Encoders of two runs may have the same name.
    key = hashlib.sha256(bytes(folder)).hexdigest()[:8]
    own = f"{ENCODERS}/{key}/{folder.name}"
    if not (project / own).is_dir():
        shutil.copytree(folder, project / own, ignore=SKIPPED)
    return {**config, "encoder": own}


def with_sample(config: dict[str, Any], project: Path) -> dict[str, Any]:
    """Return the settings of a run; its sample of the submission joins: tables are read by it."""
    table = config.get("competition", {})
    sample = project_path(table["sample_submission"]) if table.get("sample_submission") else None
    if sample is None or not sample.is_file():
        return config
    # Samples of two runs may have the same name.
    own = f"{SAMPLES}/{file_hash(sample).removeprefix('sha256:')[:8]}/{sample.name}"
    (project / own).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(sample, project / own)
    return {**config, "competition": {**table, "sample_submission": own}}


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def list_sizes(folder: Path) -> list[tuple[str, int]]:
    """Return name and bytes of the parts of a bundle, the wheels and the runs one by one."""
    runs, project = folder / "project/runs", folder / "project"
    rows = [("project", size_of(project) - size_of(runs))]
    rows += [(f"weights of {run}", size) for run, size in run_sizes(runs)]
    wheels = sorted(folder.glob("wheels/*.whl"), key=size_of)
    others = [path for path in sorted(folder.iterdir()) if path.name not in ("project", "wheels")]
    rows += [(path.name, size_of(path)) for path in others]
    if wheels:
        largest = f"{wheels[-1].name.split('-')[0]} {in_words(size_of(wheels[-1]))}"
        rows.append((f"{len(wheels)} wheels (largest: {largest})", size_of(folder / "wheels")))
    return rows


def run_sizes(runs: Path) -> list[tuple[str, int]]:
    """Return the name of each run that has weights, and the bytes of its folder."""
    found = sorted(path.parent for path in runs.rglob(WEIGHTS))
    return [(folder.relative_to(runs).as_posix(), size_of(folder)) for folder in found]


def in_words(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
