"""Train by `fit` from the run's position on to the last epoch."""

import sys

import keras

from core.base.settings import CoreSettings
from core.base.workers import is_chief
from core.data.data_generator import DataGenerator
from core.runs.run_folder import Run
from core.train.training import TrainingModel


def fit(
    settings: CoreSettings,
    model: TrainingModel,
    train_batches: DataGenerator,
    run: Run,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Train a compiled model from the run's position on; the callbacks count, score and save."""
    position = run.position
    verbose = (1 if sys.stdout.isatty() else 2) if is_chief() else 0
    whole = len(train_batches)
    last = min(settings.epochs * whole, settings.steps or settings.epochs * whole)
    model.stop_training = position.stopped
    while position.updates < last and not model.stop_training:
        # An epoch that was interrupted, and one that `steps` ends in, has fewer steps than others.
        left = last - position.updates
        steps = min(whole - position.step, left)
        epochs = left // whole if steps == whole else 1
        model.fit(
            train_batches.to_dataset(position.epoch, position.step, model.distribute_strategy),
            initial_epoch=position.epoch,
            epochs=position.epoch + epochs,
            steps_per_epoch=steps,
            callbacks=[*([KeepLossSums(model)] if position.step else []), *callbacks],
            shuffle=False,
            verbose=verbose,
        )


class KeepLossSums(keras.callbacks.Callback):
    """Give back the loss sums of a resumed epoch, which `fit` resets as the epoch begins."""

    def __init__(self, model: TrainingModel) -> None:
        super().__init__()
        self.saved = [(v, v.numpy()) for metric in model.metrics for v in metric.variables]

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        for variable, value in self.saved:
            variable.assign(value)
