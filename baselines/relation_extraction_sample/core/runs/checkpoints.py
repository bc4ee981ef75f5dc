"""Checkpoints: everything that changes during a training, written atomically."""

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from core.base.errors import InputError
from core.base.files import write_whole
from core.base.workers import broadcast, is_chief

CHECKPOINTS = ("checkpoint.npz", "older_checkpoint.npz")
# Files and folders that only an unfinished training needs, those of extras included.
UNFINISHED = (*CHECKPOINTS, "checkpoints", "soup")


@dataclass
class Position:
    """How far a training has come.

    `step` counts the consumed batches of `epoch`, and `seconds` the training time so far. `best`,
    `still_loss`, `waited` and `stopped` belong to the evaluator; `replicas` trained so far.
    """

    epoch: int = 0
    step: int = 0
    updates: int = 0
    seconds: float = 0.0
    best: float = -math.inf
    still_loss: float = math.inf
    waited: int = 0
    stopped: bool = False
    replicas: int = 0


def save_checkpoint(folder: Path, position: Position, model: keras.Model) -> None:
    """Write weights, optimizer, states of random layers, and the sums of the losses."""
    arrays = {f"position/{k}": np.asarray(v) for k, v in vars(position).items()}
    for index, variable in enumerate(checkpoint_variables(model)):
        arrays[f"{index:05}"] = np.asarray(variable)
    # The previous one is kept in case the disk damages a file.
    write_whole(
        folder / CHECKPOINTS[0],
        lambda temporary: np.savez(temporary, **arrays),  # type: ignore[arg-type]
        keep_old=folder / CHECKPOINTS[1],
    )


def restore_checkpoint(folder: Path, position: Position, model: keras.Model) -> bool:
    """Load the newest checkpoint into a model and a position; return whether there is one.

    The chief reads it and sends it to the other workers, which need not see the file.

    Raises:
        InputError: the checkpoint is damaged, or of a model of another shape.
    """
    arrays = read_checkpoint(folder, model) if is_chief() else {}
    if not broadcast(bool(arrays)):
        return False
    for name, value in vars(position).items():
        # An older version had fewer of them.
        value = np.asarray(arrays.get(f"position/{name}", value))
        setattr(position, name, broadcast(value).item())
    for index, variable in enumerate(checkpoint_variables(model)):
        variable.assign(broadcast(arrays.get(f"{index:05}")))
    return True


def read_checkpoint(folder: Path, model: keras.Model) -> dict[str, np.ndarray]:
    """Return the arrays of the newest undamaged checkpoint by name; empty: there is none.

    Raises:
        InputError: all are damaged, or the model has another shape.
    """
    damage = ""
    for path in (folder / name for name in CHECKPOINTS):
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
    """Return all variables that change during a training, in a fixed order; none is `frozen`."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    weights = [variable for variable in model.variables if not hasattr(variable, "frozen")]
    return [*weights, *model.optimizer.variables, *metrics]
