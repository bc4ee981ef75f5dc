"""Averages are scored and kept in the place of the weights themselves."""

import contextlib

import keras

from core.runs.run_folder import Run
from core.train.scoring import OwnWeights
from extras.averaging.averaging import Soup, averaged_weights, warn_of_long_average
from extras.averaging.settings import Settings, Table


def optimizer_options(settings: Settings) -> dict | None:
    """Let the optimizer keep the moving average, where the table asks for one."""
    ema = settings.averaging.ema
    return {"use_ema": True, "ema_momentum": ema} if ema else None


def make_averages(settings: Settings, run: Run, steps: int) -> "RunAverages | None":
    """Return the averages of a run; None: the weights themselves are scored and kept.

    Args:
        settings: the table `averaging`.
        run: receives the weights of a soup.
        steps: of the whole training.
    """
    if settings.averaging == Table():
        return None
    warn_of_long_average(settings.averaging.ema, steps)
    return RunAverages(run, settings.averaging.soup)


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
