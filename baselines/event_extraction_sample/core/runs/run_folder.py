"""The folder of a run: what was asked, what came out, and where to go on after an interruption."""

import math
import platform
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import joblib
import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.extras import ask, declared, how_to_get
from core.base.files import (
    MANIFEST,
    PROJECT,
    TEMPORARY,
    delete,
    file_hash,
    project_path,
    read_json,
    read_json_lines,
    take_lock,
    write_json,
    write_json_lines,
    write_whole,
)
from core.base.settings import CoreSettings, flatten
from core.base.workers import broadcast, is_chief, worker_count
from core.runs.code_hash import code_hash, code_hashes

# Settings that may change between an interruption and its resumption: none changes a weight.
FREE_SETTINGS = {
    *("task", "overwrite", "shown_examples", "run_name", "test_file", "checkpoint_steps"),
    *("prediction_batch_size", "strategy", "devices.tpu", "devices.logical_devices", "devices.xla"),
    *("preparation.processes", "floor", "n_best", *declared("FREE")),
}

CHECKPOINTS = ("checkpoint.npz", "older_checkpoint.npz")
# What only an unfinished training needs, extras' folders among it.
UNFINISHED = (*CHECKPOINTS, "checkpoints", "soup")


@dataclass
class Position:
    """How far a training has come.

    `step` counts the consumed batches of `epoch`, `seconds` the training so far; `best`, `waited`
    and `stopped` are the evaluator's.
    """

    epoch: int = 0
    step: int = 0
    updates: int = 0
    seconds: float = 0.0
    best: float = -math.inf
    waited: int = 0
    stopped: bool = False


@dataclass
class Run:
    """A folder of runs/ and the position that its checkpoint holds.

    `new_config` is what a new run writes as it begins; None: an unfinished run goes on. `lock` is
    what no other process may hold meanwhile.
    """

    folder: Path
    position: Position = field(default_factory=Position)
    new_config: dict | None = None
    lock: str = ".training.lock"

    @property
    def name(self) -> str:
        """The folder as the participant types it."""
        return self.folder.relative_to(PROJECT).as_posix()

    def begin(self) -> None:
        """Make the folder of a new run: not before every mistake that ends it has been found."""
        if is_chief():
            take_lock(self.folder / self.lock)
        if len([*self.folder.glob(".*.lock")]) == 1:  # nobody writes beside this process
            for left_over in [*self.folder.rglob(f"{TEMPORARY}*")]:
                delete(left_over)
        if self.new_config is not None:
            for name in (*UNFINISHED, "metrics.jsonl", "scores.json", "best.weights.h5", MANIFEST):
                delete(self.folder / name)
            for fold in self.folder.glob("fold_*/"):
                delete(fold)
            self.new_config["devices"]["precision"] = keras.config.dtype_policy().name
            write_json(self.folder / "config.json", self.new_config)
            self.new_config = None

    def best_score(self) -> float:
        """Return the score on dev that decided."""
        scores = read_scores(self.folder)
        return scores["dev"][scores["monitor"]]

    def note_files(self, *names: str, stay: bool = True) -> None:
        """Keep the hashes of files in the manifest; not `stay`: none, for they will change."""
        path = self.folder / MANIFEST
        known = read_json(path) if path.is_file() else {}
        found = [name for name in names if not stay or (self.folder / name).is_file()]
        write_json(path, known | {n: file_hash(self.folder / n) if stay else "" for n in found})

    def save(self, model: keras.Model) -> None:
        """Write the checkpoint: weights, optimizer, states of random layers, sums of the losses."""
        arrays = {f"position/{k}": np.asarray(v) for k, v in vars(self.position).items()}
        for index, variable in enumerate(checkpoint_variables(model)):
            arrays[f"{index:05}"] = np.asarray(variable)
        # The one before stays, for a disk that damages files.
        write_whole(
            self.folder / CHECKPOINTS[0],
            lambda temporary: np.savez(temporary, **arrays),  # type: ignore[arg-type]
            keep_old=self.folder / CHECKPOINTS[1],
        )

    def restore(self, model: keras.Model) -> None:
        """Load the checkpoint, if there is one, into the model and into `position`.

        The chief reads it and tells the other workers, which need not see the file.

        Raises:
            InputError: the checkpoint is damaged, or of a model of another shape.
        """
        arrays = self.read_checkpoint(model) if is_chief() else {}
        if not broadcast(bool(arrays)):
            return
        for name in vars(self.position):
            setattr(self.position, name, broadcast(arrays.get(f"position/{name}")).item())
        for index, variable in enumerate(checkpoint_variables(model)):
            variable.assign(broadcast(arrays.get(f"{index:05}")))
        self.forget_later_rows()

    def forget_later_rows(self) -> None:
        """Drop the scorings after the checkpoint: they will be made, and written, again."""
        metrics = self.folder / "metrics.jsonl"
        if metrics.is_file():
            rows = [row for _, row in read_json_lines(metrics)]
            write_json_lines(metrics, (r for r in rows if r["step"] <= self.position.updates))

    def read_checkpoint(self, model: keras.Model) -> dict[str, np.ndarray]:
        """Return the arrays of the newest whole checkpoint by name; empty: there is none.

        Raises:
            InputError: all are damaged, or the model has another shape.
        """
        damage = ""
        for path in (self.folder / name for name in CHECKPOINTS):
            if not path.is_file():
                continue
            try:
                with np.load(path) as saved:
                    arrays = {name: saved[name] for name in saved.files}
            except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
                damage = f"{path} is damaged ({error})"
                continue
            if damage:
                print(f"warning: {damage}: going on from the one before.")
            shapes = [tuple(variable.shape) for variable in checkpoint_variables(model)]
            if shapes != [arrays[name].shape for name in sorted(arrays) if name.isdigit()]:
                raise InputError(
                    f"{path} is of a model of another shape: use the settings it was trained with, "
                    "or another --run_name."
                )
            return arrays
        if damage:
            raise InputError(f"{damage}: delete it to begin the run anew.")
        return {}


def checkpoint_variables(model: keras.Model) -> list[keras.Variable]:
    """Return everything that changes during a training, in a fixed order: nothing `frozen`."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    weights = [variable for variable in model.variables if not hasattr(variable, "frozen")]
    return [*weights, *model.optimizer.variables, *metrics]


def open_run(settings: CoreSettings, hashes: dict[str, str] | None = None) -> Run:
    """Return a new run, or an unfinished one of the same settings and data; write nothing yet.

    `hashes` are those of the data, by name; None: of the files that `RecordSettings` name.

    Raises:
        InputError: the run is finished, or was begun with other settings or data.
    """
    folder = PROJECT / "runs" / settings.run_name
    begun = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    finished = "finished" in read_scores(folder)
    goes_on = not finished and begun.get("overwrite", False) == settings.overwrite
    if goes_on and settings.devices.precision == "auto":
        settings.devices.precision = flatten(begun).get("devices.precision", "auto")
    asked = {"task": settings.task, **settings.model_dump(), **(hashes or record_hashes(settings))}
    lock = ask("name_lock", settings) or Run.lock
    other = find_difference(begun, asked)
    asked |= {"code": code_hashes(PROJECT)}
    if settings.overwrite:
        # Unless this very overwriting was interrupted.
        known = not finished and begun.get("overwrite") and begun.get("code") == asked["code"]
        return Run(folder, new_config=None if known and not other else asked, lock=lock)
    if finished:
        lost = "" if begun else " without its config.json"
        raise InputError(
            f"runs/{settings.run_name} is a finished run{lost}: choose another name with "
            "--run_name, or replace it with --overwrite true."
        )
    if begun and other:
        raise InputError(
            f"runs/{settings.run_name} was begun with {other}, choose another --run_name, or begin "
            "anew with --overwrite true."
        )
    then, now = begun.get("code", asked["code"]), asked["code"]
    if changed := sorted(path for path in then | now if then.get(path) != now.get(path)):
        print(f"warning: changed since runs/{settings.run_name} was begun: {', '.join(changed)}.")
    return Run(folder, new_config=None if begun else asked, lock=lock)


def find_difference(begun: dict, asked: dict) -> str:
    """Return in words what a run was begun with and is not asked for now; empty: nothing.

    A file is what it holds, wherever it lies.
    """
    begun, now = flatten(begun), flatten(asked)
    file_of = {name.removesuffix("_file") + "_hash": name for name in now}
    for name in (name for name in now if begun.get(name) != now[name]):
        if name in FREE_SETTINGS or name.removesuffix("_file") + "_hash" in now:
            continue
        if name.endswith("_hash"):
            file = now.get(file_of.get(name, ""), name.removesuffix("_hash"))
            return f"another content of {file}: restore that"
        return f"{name} = {begun.get(name)!r}, now it is {now[name]!r}: go on with the old value"
    return ""


def record_hashes(settings: CoreSettings) -> dict[str, str]:
    """Return the hashes of the files that a run learns from and is scored on."""
    values = flatten(settings.model_dump())
    names = (name for name in ("train_file", "dev_file", *declared("FILES")) if values[name])
    return {n.removesuffix("_file") + "_hash": file_hash(project_path(values[n])) for n in names}


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """Return the folders of trained runs, by path or name; a cross-validation is all its folds.

    Raises:
        InputError: a run is named twice.
    """
    found = [member.resolve() for path in paths for member in members(path)]
    for twice in (folder for folder in found if found.count(folder) > 1):
        raise InputError(f"{twice.name} is named twice: name each run once.")
    return found


def members(path: str | Path) -> list[Path]:
    """Return the folder of a run, or those of the folds of a cross-validation.

    Raises:
        InputError: there is no such run, or it has not been trained to where it can be used.
    """
    for folder in (Path(path), PROJECT / "runs" / path):
        if (folder / "config.json").is_file():
            if folds := ask("find_folds", folder):
                return folds
            if any(folder.glob("fold_*/")):
                need = f"needs extras/folds: {how_to_get('folds')}"
                raise InputError(f"{path} is a cross-validation, which {need}.")
            if not (folder / "best.weights.h5").is_file():
                raise InputError(f"{path} has no weights yet: let train.py finish one epoch first.")
            return [folder]
    raise InputError(f"{path} is not a run: {known_runs('config.json')}.")


def known_runs(file: str) -> str:
    """Return in words which runs have a file already."""
    names = sorted(entry.parent.name for entry in PROJECT.glob(f"runs/*/{file}"))
    return f"runs/ has {', '.join(names)}" if names else "train one with: python train.py"


def check_members(folders: Sequence[Path], task: str, settings: tuple[str, ...]) -> None:
    """Refuse runs of another task, and those whose labels, tokens or named settings differ.

    Raises:
        InputError: names the run, or two and what differs.
    """
    first, *others = folders
    for folder in folders:
        check_files(folder)
        trained = read_json(folder / "config.json").get("task", task)
        if trained != task:
            what = f"is a run of another task, {trained}: use the project that trained it"
            raise InputError(f"{folder.name} {what}.")
    for folder in others:
        for file, what in (("labels.json", "labels"), ("tokenizer.json", "tokens")):
            if (first / file).read_bytes() != (folder / file).read_bytes():
                raise InputError(
                    f"{first.name} and {folder.name} have different {what}: only scores of the "
                    "same ones can be averaged, so train both on the same file and encoder."
                )
        one, other = (read_json(place / "config.json") for place in (first, folder))
        for name in (name for name in settings if one.get(name) != other.get(name)):
            raise InputError(
                f"{first.name} has {name} = {one.get(name)!r} and {folder.name} "
                f"{other.get(name)!r}: train both with the same, or predict with one."
            )


def tuned_threshold(folders: Sequence[Path]) -> float:
    """Return the mean of the thresholds of some runs; that of a fold is its cross-validation's.

    Raises:
        InputError: a run has none.
    """
    thresholds = []
    for folder in folders:
        # While the folds are still being trained, each has only its own.
        is_fold = "fold" in read_json(folder / "config.json")
        path = folder.parent if is_fold and read_scores(folder.parent) else folder
        thresholds.append(read_scores(path).get("dev", {}).get("threshold"))
        if not isinstance(thresholds[-1], int | float) or not math.isfinite(thresholds[-1]):
            raise InputError(f"{path} has no threshold in scores.json: restore it, or train again.")
    return sum(thresholds) / len(thresholds)


def read_scores(folder: Path) -> dict:
    """Return the scores of a run, empty before the first; those of other files stand in `files`."""
    path = folder / "scores.json"
    return read_json(path) if path.is_file() else {}


def provenance(settings: CoreSettings) -> dict:
    """Return what a score must be read with: seed, command, versions, hardware, code."""
    packages = ("tensorflow", "keras", "keras-hub", "tokenizers", "numpy")
    return {
        "seed": settings.seed,
        "encoder": settings.encoder,
        "dtype_policy": keras.config.dtype_policy().name,
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "hardware": describe_hardware(),
        "code_hash": code_hash(PROJECT),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_hardware() -> str:
    """Return the processor, its cores and the accelerators, in words."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    accelerators = [
        tf.config.experimental.get_device_details(device).get("device_name", device.name)
        for device in tf.config.list_physical_devices("GPU")
    ]
    usable = joblib.cpu_count()  # by this process: schedulers and containers may leave it fewer
    cores = "1 core" if usable == 1 else f"{usable} cores"
    others = [f"{worker_count()} workers"] if worker_count() > 1 else []
    return ", ".join([f"{processor}, {cores}", *accelerators, *others])


def end_training(run: Run) -> list[dict]:
    """Note how long a run was trained; return its dev predictions."""
    metrics = run.folder / "metrics.jsonl"
    rows = [row for _, row in read_json_lines(metrics)] if metrics.is_file() else []
    scores = read_scores(run.folder) | {
        "epochs": rows[-1]["epoch"] if rows else run.position.epoch,  # `steps` may end within one
        "minutes": round(run.position.seconds / 60, 2),
    }
    write_json(run.folder / "scores.json", scores)
    return [record for _, record in read_json_lines(run.folder / "predictions" / "dev.jsonl")]


def finish_run(run: Run) -> None:
    """Mark a run as finished, after all else; its checkpoints are needed no more."""
    finished = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
    write_json(run.folder / "scores.json", read_scores(run.folder) | finished)
    for name in UNFINISHED:
        delete(run.folder / name)


def check_files(folder: Path) -> None:
    """Refuse a run whose files are not those that its training wrote; older runs noted none.

    Raises:
        InputError: names the file.
    """
    path = folder / MANIFEST
    for name, known in (read_json(path) if path.is_file() else {}).items():
        if known and (not (folder / name).is_file() or file_hash(folder / name) != known):
            what = "is missing, damaged or swapped: restore it, or train again"
            raise InputError(f"{folder / name} {what}.")


def load_best(model: keras.Model, folder: Path) -> None:
    """Load the best weights of a run.

    Raises:
        InputError: they are damaged, or of a model of another shape.
    """
    path = folder / "best.weights.h5"
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} does not fit the model, or is damaged: restore the code and the settings it "
            "was trained with, or train again."
        ) from error
