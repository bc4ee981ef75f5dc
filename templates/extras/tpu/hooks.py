"""What check.py says of shapes and of XLA, where the doctor asks."""

from collections.abc import Callable

from core.base.settings import CoreSettings
from core.data.checks import Finding
from core.batches import Batch, DataGenerator
from core.step import TrainingModel
from extras.tpu import compile_checks, static_checks


def find_dynamic_shapes(model: TrainingModel, batch: Batch) -> list[Finding]:
    """Return what a TPU can't compile of the gradient of a batch, by layer."""
    return static_checks.find_dynamic_shapes(model, batch)


def check_compilation(
    build: Callable[[], TrainingModel],
    train_batches: DataGenerator,
    settings: CoreSettings,
    topology: str,
) -> list[Finding]:
    """Lower the training step to HLO, and compile it for a TPU that is named."""
    return compile_checks.check_compilation(build, train_batches, settings, topology)
