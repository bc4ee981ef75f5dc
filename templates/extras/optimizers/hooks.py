"""Another optimizer, another schedule, rates by layer: what AdamW of core does not do."""

from typing import Any

import keras

from core.train.training import Models
from extras.optimizers.settings import Settings, Table
from extras.optimizers.toolbox import make_kind


def make_optimizer(
    settings: Settings, models: Models, options: dict[str, Any]
) -> keras.optimizers.Optimizer | None:
    """Return what the table `optimizers` asks for; None: it is as core has it."""
    if settings.optimizers == Table():
        return None
    return make_kind(settings, models.training, models.encoder, options)
