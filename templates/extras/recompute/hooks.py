"""Transformer layers that are computed twice."""

import keras

from extras.recompute.recompute import recompute_layers
from extras.recompute.settings import Settings


def change_layers(settings: Settings, model: keras.Model) -> None:
    """Let every Transformer layer of a model be recomputed, where the table asks for it."""
    if settings.recompute.enabled:
        recompute_layers(model)
