"""Keras's own loop, Orbit's, or that of parameter servers: the same model, data and scores."""

import keras

from common.averaging import warn_of_long_average
from common.callbacks import Evaluator
from common.generator import Generator
from common.parameter_server import fit_with_servers
from common.run_folder import Run
from common.settings import CommonSettings
from common.training import TrainingModel, fit


def run_loop(
    settings: CommonSettings,
    model: TrainingModel,
    generator: Generator,
    run: Run,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Train from the run's position on to the last epoch.

    Args:
        settings: `loop`, `strategy`, `epochs`, `steps`, `ema`.
        model: compiled.
        generator: of the training examples.
        run: where to begin; the callbacks move it on.
        callbacks: as in `keras.Model.fit`; Orbit counts and saves by itself, and takes the
            `Evaluator` alone.
    """
    warn_of_long_average(settings.ema, settings.steps or settings.epochs * len(generator))
    evaluator = next(callback for callback in callbacks if isinstance(callback, Evaluator))
    if settings.strategy == "parameter_server":
        fit_with_servers(settings, model, generator, run, callbacks)
    elif settings.loop == "fit":
        fit(model, generator, run.position, settings.epochs, callbacks)
    else:
        from common.orbit_loop import train_with_orbit  # an optional requirement

        train_with_orbit(settings, model, generator, run, evaluator)
    evaluator.try_soup()
