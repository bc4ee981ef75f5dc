"""Another optimizer, another schedule, rates by layer: what core's AdamW does not do."""

from typing import Any

import keras

from core.training import Training
from extras.optimizers.settings import Table
from extras.optimizers.toolbox import freeze_layers, make_kind


def prepare(training: Training) -> None:
    """Freeze the lowest layers of the encoder, and choose the optimizer of the table."""
    settings, models = training.settings, training.models
    freeze_layers(models.encoder, settings.optimizers.frozen_layers)
    if settings.optimizers.model_copy(update={"frozen_layers": 0}) == Table():
        return

    def make_optimizer(**options: Any) -> keras.optimizers.Optimizer:
        return make_kind(settings, models.training, models.encoder, options)

    training.optimizer_class = make_optimizer
