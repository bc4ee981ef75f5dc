"""Score and keep averages of the weights instead of the weights themselves."""

import contextlib

import keras

from core.runs.run import Run
from core.scores.evaluation import OwnWeights
from core.training import Training
from extras.averaging.averaging import Soup, averaged_weights, warn_of_long_average
from extras.averaging.settings import Table


def prepare(training: Training) -> None:
    """Score and keep averages, where the table asks for them."""
    table = training.settings.averaging
    if table == Table():
        return
    if table.ema:  # the optimizer keeps the moving average
        training.optimizer_options |= {"use_ema": True, "ema_momentum": table.ema}
    warn_of_long_average(table.ema, training.last_step)
    training.kept_weights = RunAverages(training.run, table.soup)


class RunAverages(OwnWeights):
    """The moving average while a training runs, and the soup at its end.

    Args:
        run: receives the weights of the soup.
        size: so many weights make the soup; 0: there is none.
    """

    def __init__(self, run: Run, size: int) -> None:
        self.soup = Soup(run.folder / "soup", size)

    def scored_weights(self, model: keras.Model) -> contextlib.AbstractContextManager[None]:
        return averaged_weights(model)

    def add(self, model: keras.Model, step: int, score: float) -> None:
        self.soup.add(model, step, score)

    def average(self, model: keras.Model) -> list[int]:
        return self.soup.average(model) if self.soup.size else []
