"""Transformer layers that are computed twice, and batch sizes tried with them and without."""

from collections.abc import Callable

from core.batches import DataGenerator
from core.step import Models
from extras.recompute import memory
from extras.recompute.recompute import recompute_layers
from extras.recompute.settings import Settings


def prepare(training: Training) -> None:
    """Let every Transformer layer of the models be recomputed, where the table asks for it."""
    if training.settings.recompute.enabled:
        recompute_layers(training.models.training)


def try_batch_sizes(settings: Settings, flags: list[str]) -> bool:
    """Print memory and speed of the training step for one batch size after the other."""
    memory.print_estimate(settings)
    memory.try_batch_sizes(settings, flags)
    return True


def measure_step(
    settings: Settings, train_batches: DataGenerator, build: Callable[[], Models]
) -> bool:
    """Print memory and speed of one training step."""
    memory.measure_step(settings, train_batches, build)
    return True
