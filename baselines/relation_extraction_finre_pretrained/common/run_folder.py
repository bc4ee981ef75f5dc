"""The folder of a run: what was asked, what came out, and where to go on after an interruption."""

import math
import os
import platform
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import jsonlines
import keras
import numpy as np
import tensorflow as tf

from common.cluster import is_chief, share, workers
from common.code_hash import code_hash
from common.errors import InputError
from common.files import (
    delete,
    file_hash,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
    write_whole,
)
from common.settings import PROJECT, CommonSettings, RecordSettings, project_path

# Settings that may change between an interruption and its resumption: none changes a weight.
FREE_SETTINGS = {
    *("overwrite", "shown_examples", "run_name", "test_file", "processes"),
    *("checkpoint_steps", "kept_checkpoints", "orbit_job", "steps_per_loop"),
}


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

    `new_config` is what a new run writes as it begins; None: an unfinished run goes on. `whole` is
    the cross-validation of which this run is a fold.
    """

    folder: Path
    position: Position = field(default_factory=Position)
    new_config: dict | None = None
    whole: "Run | None" = None

    @property
    def name(self) -> str:
        """The folder as the participant types it."""
        return self.folder.relative_to(PROJECT).as_posix()

    def begin(self) -> None:
        """Make the folder of a new run: not before every mistake that ends it has been found."""
        if self.whole is not None:
            self.whole.begin()
        if self.new_config is not None:
            for path in (self.checkpoint, self.older_checkpoint, self.checkpoints, self.soup):
                delete(path)
            for name in ("metrics.jsonl", "scores.json", "best.weights.h5"):
                delete(self.folder / name)
            for folder in self.fold_folders():
                delete(folder)
            write_json(self.folder / "config.json", self.new_config)
            self.new_config = None

    def best_score(self) -> float:
        """Return the score on dev that decided."""
        scores = read_scores(self.folder)
        return scores["dev"][scores["monitor"]]

    @property
    def finished(self) -> bool:
        """Tell whether nothing is left to train."""
        return share("finished" in read_scores(self.folder))

    def open_fold(self, fold: int) -> "Run":
        """Return the run of one fold of this cross-validation, a new one or one that exists.

        Args:
            fold: from 1.
        """
        folder = self.folder / f"fold_{fold}"
        if self.new_config is None and (folder / "config.json").is_file():
            return Run(folder, whole=self)
        config = self.new_config or read_json(self.folder / "config.json")
        return Run(folder, new_config={**config, "fold": fold}, whole=self)

    def fold_folders(self) -> list[Path]:
        """Return the folders of the folds that have begun, the first fold first."""
        return fold_folders(self.folder)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.npz"

    @property
    def older_checkpoint(self) -> Path:
        """The checkpoint before the newest, for a disk that damages files."""
        return self.folder / "older_checkpoint.npz"

    @property
    def checkpoints(self) -> Path:
        """The folder of Orbit's checkpoints."""
        return self.folder / "checkpoints"

    @property
    def soup(self) -> Path:
        """The folder of weights that may be averaged."""
        return self.folder / "soup"

    def save(self, model: keras.Model) -> None:
        """Write the checkpoint: weights, optimizer, seeds of dropout, sums of the losses."""
        arrays = {
            f"{index:05}": np.asarray(variable)
            for index, variable in enumerate(checkpoint_variables(model))
        }
        for name, value in vars(self.position).items():
            arrays[f"position/{name}"] = np.asarray(value)

        def write(temporary: Path) -> None:
            np.savez(temporary, **arrays)

        write_whole(self.checkpoint, write, keep_old=self.older_checkpoint)

    def restore(self, model: keras.Model) -> None:
        """Load the checkpoint, if there is one, into the model and into `position`.

        The chief reads it and tells the other workers, which need not see the file.

        Raises:
            InputError: the checkpoint is damaged, or of a model of another shape.
        """
        arrays = self.read_checkpoint(model) if is_chief() else {}
        if not share(bool(arrays)):
            return
        for name in vars(self.position):
            setattr(self.position, name, share(arrays.get(f"position/{name}")).item())
        for index, variable in enumerate(checkpoint_variables(model)):
            variable.assign(share(arrays.get(f"{index:05}")))
        self.forget_later_rows()

    def forget_later_rows(self) -> None:
        """Drop the scorings after the checkpoint: they will be made, and written, again."""
        metrics = self.folder / "metrics.jsonl"
        if metrics.is_file():
            with jsonlines.open(metrics) as reader:
                rows = [row for row in reader if row["step"] <= self.position.updates]
            write_json_lines(metrics, rows)

    def read_checkpoint(self, model: keras.Model) -> dict[str, np.ndarray]:
        """Return the arrays of the newest whole checkpoint by name; empty: there is none.

        Raises:
            InputError: all are damaged, or the model has another shape.
        """
        arrays: dict[str, np.ndarray] = {}
        damage = None
        for path in (self.checkpoint, self.older_checkpoint):
            if path.is_file() and not arrays:
                try:
                    with np.load(path) as saved:
                        arrays = {name: saved[name] for name in saved.files}
                except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
                    damage = f"{path} is damaged ({error})"
        if damage and not arrays:
            raise InputError(f"{damage}: delete it to begin the run anew.")
        if damage:
            print(f"warning: {damage}: going on from the one before.")
        if not arrays:
            return {}
        shapes = [array.shape for name, array in arrays.items() if name.isdigit()]
        if shapes != [tuple(variable.shape) for variable in checkpoint_variables(model)]:
            raise InputError(
                f"{self.checkpoint} is of a model of another shape: use the settings it was "
                "trained with, or another --run_name."
            )
        return arrays


def checkpoint_variables(model: keras.Model) -> list[keras.Variable]:
    """Return everything that changes during a training, in a fixed order."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    return [*model.variables, *model.optimizer.variables, *metrics]


def open_run(settings: CommonSettings, hashes: dict[str, str] | None = None) -> Run:
    """Return a new run, or an unfinished one of the same settings and data; write nothing yet.

    Args:
        settings: of the project.
        hashes: of the data, by name; None: of the files that `RecordSettings` name.

    Raises:
        InputError: the run is finished, or was begun with other settings or data.
    """
    folder = PROJECT / "runs" / settings.run_name
    asked = {**settings.model_dump(), **(hashes or record_hashes(settings))}
    if (folder / "config.json").is_file() and not settings.overwrite:
        if "finished" in read_scores(folder):
            raise InputError(
                f"runs/{settings.run_name} is a finished run: choose another name with "
                "--run_name, or replace it with --overwrite true."
            )
        begun = read_json(folder / "config.json")
        for key in asked.keys() - FREE_SETTINGS:
            if begun.get(key) != asked[key]:
                raise InputError(
                    f"runs/{settings.run_name} was begun with {key} = {begun.get(key)!r}, now it "
                    f"is {asked[key]!r}: go on with the old value, choose another --run_name, or "
                    "begin anew with --overwrite true."
                )
        return Run(folder)
    return Run(folder, new_config=asked)


def record_hashes(settings: RecordSettings) -> dict[str, str]:
    """Return the hashes of the files that a run learns from and is scored on."""
    hashes = {"train_hash": data_hash(settings.train_file)}
    if not settings.folds:
        hashes["dev_hash"] = data_hash(settings.dev_file)
    if settings.unlabelled_file:
        hashes["unlabelled_hash"] = data_hash(settings.unlabelled_file)
    return hashes


def data_hash(path: str) -> str:
    """Return the hash of a file that a setting names.

    Raises:
        InputError: it is absent.
    """
    if not project_path(path).is_file():
        raise InputError(
            f"{path} is not a file of the project: check train_file, dev_file and unlabelled_file "
            "in config.toml."
        )
    return file_hash(project_path(path))


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """Return the folders of trained runs; a cross-validation stands for all its folds.

    Args:
        paths: folders, or their names in runs/.

    Raises:
        InputError: there is no such run, or it has not been trained to where it can be used.
    """
    return [member for path in paths for member in members(path)]


def members(path: str | Path) -> list[Path]:
    """Return the folder of a run, or those of the folds of a cross-validation."""
    for folder in (Path(path), PROJECT / "runs" / path):
        if (folder / "config.json").is_file():
            config, folds = read_json(folder / "config.json"), fold_folders(folder)
            wanted = 0 if "fold" in config else config.get("folds", 0)
            ready = [fold for fold in folds if "finished" in read_scores(fold)]
            if len(ready) < wanted:
                raise InputError(
                    f"{path} has {len(ready)} of {wanted} folds: let train.py finish them first."
                )
            if wanted:
                return folds
            if not (folder / "best.weights.h5").is_file():
                raise InputError(f"{path} has no weights yet: let train.py finish one epoch first.")
            return [folder]
    names = sorted(entry.parent.name for entry in PROJECT.glob("runs/*/config.json"))
    known = f"runs/ has {', '.join(names)}" if names else "train one with: python train.py"
    raise InputError(f"{path} is not a run: {known}.")


def fold_folders(folder: Path) -> list[Path]:
    """Return the folders of the folds in a run's folder, the first fold first."""
    found = (path.parent for path in folder.glob("fold_*/config.json"))
    return sorted(found, key=lambda path: int(path.name.removeprefix("fold_")))


def scored_folder(path: str | Path) -> Path:
    """Return the folder that holds the scores of a run or of a whole cross-validation."""
    first = members(path)[0]
    return first.parent if len(members(path)) > 1 else first


def check_members(folders: Sequence[Path], settings: tuple[str, ...]) -> None:
    """Refuse runs whose scores mean different things: their mean would mean nothing.

    Args:
        folders: of the runs.
        settings: the names of those that must be equal.

    Raises:
        InputError: names two runs and what differs.
    """
    first = folders[0]
    for folder in folders[1:]:
        for file, what in (("labels.json", "labels"), ("tokenizer.json", "tokens")):
            contents = [(place / file).read_bytes() for place in (first, folder)]
            if contents[0] != contents[1]:
                raise InputError(
                    f"{first.name} and {folder.name} have different {what}: only scores of the "
                    "same ones can be averaged, so train both on the same file and encoder."
                )
        configs = [read_json(place / "config.json") for place in (first, folder)]
        for name in settings:
            values = [config.get(name) for config in configs]
            if values[0] != values[1]:
                raise InputError(
                    f"{first.name} has {name} = {values[0]!r} and {folder.name} {values[1]!r}: "
                    "train both with the same, or predict with one."
                )


def tuned_threshold(folders: Sequence[Path]) -> float:
    """Return the mean of the thresholds of some runs; that of a fold is its cross-validation's.

    Raises:
        InputError: a run has none.
    """
    thresholds = []
    for folder in folders:
        whole = folder.parent if "fold" in read_json(folder / "config.json") else folder
        # While the folds are still being trained, each has only its own.
        place = whole if (whole / "scores.json").is_file() else folder
        threshold = read_scores(place).get("dev", {}).get("threshold")
        if threshold is None:
            raise InputError(
                f"{place / 'scores.json'} is missing or has no threshold: restore it, or train "
                "again."
            )
        thresholds.append(threshold)
    return sum(thresholds) / len(thresholds)


def read_scores(folder: Path) -> dict:
    """Return the scores of a run, empty before the first."""
    path = folder / "scores.json"
    return read_json(path) if path.is_file() else {}


def circumstances(settings: CommonSettings) -> dict:
    """Return what a score must be read with: seed, command, versions, hardware, code."""
    packages = ("tensorflow", "keras", "keras-hub", "tokenizers", "numpy")
    return {
        "seed": settings.seed,
        "encoder": settings.encoder,
        "command": " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
        "hardware": describe_hardware(),
        "code_hash": code_hash(PROJECT),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_hardware() -> str:
    """Return the processor, its cores and the accelerators, in words."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    accelerators = [
        tf.config.experimental.get_device_details(device).get("device_name", device.name)
        for device in tf.config.list_physical_devices("GPU")
    ]
    # Those that this process may use: a scheduler or taskset can leave it fewer than there are.
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count())
    cores = "1 core" if len(usable) == 1 else f"{len(usable)} cores"
    others = [f"{workers()} workers"] if workers() > 1 else []
    return ", ".join([f"{processor}, {cores}", *accelerators, *others])


def finish_run(run: Run) -> list[dict]:
    """Mark a run as finished and return its dev predictions; its checkpoints are needed no more."""
    scores = read_scores(run.folder)
    scores |= {
        "epochs": run.position.epoch,
        "minutes": round(run.position.seconds / 60, 2),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_json(run.folder / "scores.json", scores)
    for path in (run.checkpoint, run.older_checkpoint, run.checkpoints, run.soup):
        delete(path)
    return [record for _, record in read_json_lines(run.folder / "predictions" / "dev.jsonl")]


def load_best(model: keras.Model, folder: Path) -> None:
    """Load the best weights of a run.

    Raises:
        InputError: they are damaged, or of a model of another shape.
    """
    path = folder / "best.weights.h5"
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        raise InputError(
            f"{path} does not fit the model, or is damaged: restore the code and the settings it "
            "was trained with, or train again."
        ) from error
