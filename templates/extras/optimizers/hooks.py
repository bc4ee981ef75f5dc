"""Another optimizer, another schedule, rates by layer: what AdamW of core does not do."""

from typing import Any

import keras

from core.train.training import Models
from extras.optimizers.settings import Settings, Table
from extras.optimizers.toolbox import freeze_layers, make_kind


def change_layers(settings: Settings, models: Models) -> None:
    """Freeze the lowest layers of the encoder, where the table asks for it."""
    freeze_layers(models.encoder, settings.optimizers.frozen_layers)


def make_optimizer(
    settings: Settings, models: Models, options: dict[str, Any]
) -> keras.optimizers.Optimizer | None:
    """Return what the table `optimizers` asks for; None: it is as core has it."""
    if settings.optimizers.model_copy(update={"frozen_layers": 0}) == Table():
        return None
    return make_kind(settings, models.training, models.encoder, options)
