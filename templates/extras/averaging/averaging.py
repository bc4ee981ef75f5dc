"""Averages of weights: over the training steps (EMA), and of the best scored weights (a soup)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np

from core.base.files import delete, read_json, write_json, write_whole
from core.base.workers import broadcast, is_chief

LONGEST_AVERAGE = 0.1  # of the steps of a training; a longer average contains outdated weights


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Temporarily give a model the moving averages of its weights, if its optimizer has them.

    Source: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046.
    """
    optimizer = model.optimizer
    averages = optimizer._model_variables_moving_average if optimizer.use_ema else []
    variables = optimizer._trainable_variables if optimizer.use_ema else []
    weights = [np.array(variable) for variable in variables]
    for variable, average in zip(variables, averages, strict=True):
        variable.assign(np.array(average))
    try:
        yield
    finally:
        for variable, weight in zip(variables, weights, strict=True):
            variable.assign(weight)


def warn_of_long_average(ema: float, steps: int) -> None:
    """Warn if the moving average lags behind for a large part of a training.

    Args:
        ema: the momentum m; the average is over about 1 / (1 - m) steps.
        steps: of the whole training.
    """
    if ema and 1 / (1 - ema) > LONGEST_AVERAGE * steps:
        print(
            f"warning: ema = {ema} averages the last {1 / (1 - ema):.0f} steps, and the training "
            f"has {steps}: scores lag behind, and may stay at 0; set ema to "
            f"{max(0.0, 1 - 1 / (LONGEST_AVERAGE * steps)):.2f} at the most, or to 0."
        )


class Soup:
    """The best scored weights of a run, kept until their average is tried.

    Source: Wortsman et al. 2022, https://arxiv.org/abs/2203.05482.

    Args:
        folder: for the weights.
        size: number of weights to keep.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the kept weights by file name, best first."""
        path = self.folder / "scores.json"
        return read_json(path) if path.is_file() else {}

    def add(self, model: keras.Model, step: int, score: float) -> None:
        """Keep the weights of a step if they are among the best."""
        if not self.size:
            return
        name = f"{step:08}.weights.h5"
        scores = {**self.scores, name: score}
        best = sorted(scores, key=lambda other: -scores[other])[: self.size]
        if name in best:
            write_whole(self.folder / name, model.save_weights)
        write_json(self.folder / "scores.json", {other: scores[other] for other in best})
        for other in scores.keys() - set(best):
            delete(self.folder / other)

    def average(self, model: keras.Model) -> list[int]:
        """Give a model the average of the kept weights; return their steps."""
        names = broadcast(list(self.scores) if is_chief() else [])
        weights = [weight for weight in model.weights if not hasattr(weight, "frozen")]
        sums = [np.zeros(weight.shape) for weight in weights]
        for name in names:
            if is_chief():
                model.load_weights(self.folder / name)
            for total, weight in zip(sums, weights, strict=True):
                total += np.asarray(weight) / len(names)
        for weight, total in zip(weights, sums, strict=True):
            weight.assign(broadcast(total))
        return sorted(int(name.partition(".")[0]) for name in names)
