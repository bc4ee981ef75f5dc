"""Cross-validation, where the table asks for it."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.files import read_json
from core.base.workers import worker_count
from core.runs.run import Run
from core.runs.scores import read_scores
from core.devices.strategy import Strategy
from core.scores.evaluation import Evaluation
from extras.folds.settings import Settings


def cross_validate(
    settings: Settings,
    strategy: Strategy,
    run: Run,
    examples: Sequence[Any],
    keys: Iterable[tuple[tuple[str, ...], Hashable]],
    train: Callable[..., None],
    load_runs: Callable[..., Any],
    predict: Callable[[Any, Sequence[Any]], dict[str, Any]],
    score: Callable[[dict[str, Any]], Evaluation],
) -> bool | None:
    """Train once for each fold, and leave the out-of-fold scores in the run; None: not asked for.

    Args:
        run: of the whole cross-validation; `examples` are all of the training file.
        keys: the texts of each example, which tie it to others, and its kind, of which each fold
            is to have its share.
        train, load_runs, predict: those of `task/training.py`.
        score: from what is found, by record id, to the scores of all examples.

    Raises:
        InputError: there are too few groups of records, or several workers.
    """
    if not settings.folds.count:
        return None
    if worker_count() > 1:
        raise InputError(
            f"folds.count = {settings.folds.count} trains one fold after another on one machine: "
            "leave the cluster, or train each worker's own runs with strategy = single."
        )
    from extras.folds.folds import train_folds

    train_folds(settings, strategy, run, examples, keys, train, load_runs, predict, score)
    return True


def assign_folds(
    settings: Settings, keys: Iterable[tuple[tuple[str, ...], Hashable]]
) -> np.ndarray | None:
    """Return the fold `[examples]` that holds each example out; None: there are no folds.

    `keys` as in `cross_validate`.
    """
    if not settings.folds.count:
        return None
    from extras.folds.folds import assign_folds

    return assign_folds([*keys], settings.folds.count, settings.seed)


def find_folds(folder: Path) -> list[Path] | None:
    """Return the folders of the folds of a cross-validation; None: the run is another one.

    Raises:
        InputError: some are not finished.
    """
    config = read_json(folder / "config.json")
    asked = 0 if "fold" in config else config.get("folds", 0)
    wanted = asked.get("count", 0) if isinstance(asked, dict) else asked  # once a flat key
    if not wanted:
        return None
    folds = [folder / f"fold_{number}" for number in range(1, wanted + 1)]
    ready = sum("finished" in read_scores(fold) for fold in folds)
    if ready < wanted:
        raise InputError(
            f"{folder.name} has {ready} of {wanted} folds: let train.py finish them first."
        )
    return folds
