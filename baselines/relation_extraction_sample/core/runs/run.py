"""The folder of a run: begun, written to, and continued after an interruption."""

from dataclasses import dataclass, field
from pathlib import Path

import keras

from core.base.errors import InputError
from core.base.files import (
    MANIFEST,
    PROJECT,
    TEMPORARY,
    delete,
    mend_last_line,
    read_json_lines,
    take_lock,
    write_json,
    write_json_lines,
)
from core.base.workers import is_chief
from core.runs.checkpoints import UNFINISHED, Position
from core.runs.scores import read_scores

# What a training and its scripts leave in a run; one that is overwritten keeps none of it.
RESULTS = (
    *("metrics.jsonl", "scores.json", "best.weights.h5"),
    *("predictions", "tensorboard", "report.html", "comparison.json", "note.txt"),
)


@dataclass
class Run:
    """A folder of runs/ and the position in its training.

    Attributes:
        folder: of the run.
        position: how far its training has come.
        new_config: content of config.json for a new run; None: an unfinished run goes on.
        lock: lock file held while training.
    """

    folder: Path
    position: Position = field(default_factory=Position)
    new_config: dict | None = None
    lock: str = ".training.lock"

    @property
    def name(self) -> str:
        """The folder relative to the project, as a user types it."""
        return self.folder.relative_to(PROJECT).as_posix()

    def begin(self) -> None:
        """Create the folder of a new run; call this after all that may refuse the training."""
        if is_chief():
            take_lock(self.folder / self.lock)
            if self.new_config is None and "finished" in read_scores(self.folder):
                raise InputError(f"{self.name} was finished by another process in the meantime.")
        if len([*self.folder.glob(".*.lock")]) == 1:  # no other process writes here
            for left_over in [*self.folder.rglob(f"{TEMPORARY}*")]:
                delete(left_over)
        if self.new_config is not None:
            for name in (*UNFINISHED, *RESULTS, MANIFEST):
                delete(self.folder / name)
            for fold in self.folder.glob("fold_*/"):
                delete(fold)
            self.new_config["devices"]["precision"] = keras.config.dtype_policy().name
            write_json(self.folder / "config.json", self.new_config)
            self.new_config = None
        mend_last_line(self.folder / "metrics.jsonl")

    def best_score(self) -> float:
        """Return the score on dev of the best weights."""
        scores = read_scores(self.folder)
        return scores["dev"][scores["monitor"]]

    def forget_later_rows(self) -> None:
        """Drop the rows of metrics.jsonl after the position: they will be written again."""
        metrics = self.folder / "metrics.jsonl"
        if metrics.is_file():
            rows = [row for _, row in read_json_lines(metrics)]
            write_json_lines(metrics, (r for r in rows if r["step"] <= self.position.updates))
