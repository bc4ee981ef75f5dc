"""What check.py does with a model: one batch through it, on two replicas, through XLA."""

import argparse
import sys
from collections.abc import Callable

from core.base.settings import CoreSettings
from core.data.data_checks import Finding
from core.data.data_generator import DataGenerator
from core.train.training import Models
from extras.doctor import memory
from extras.doctor.compile_checks import check_compilation
from extras.doctor.model_checks import check_model


def try_batch_sizes(settings: CoreSettings, flags: list[str]) -> bool:
    """Print memory and speed of the training step for one batch size after the other."""
    memory.try_batch_sizes(settings, flags)
    return True


def examine(
    options: argparse.Namespace,
    settings: CoreSettings,
    models: Models,
    train_batches: DataGenerator,
    build: Callable[[], Models],
) -> list[Finding]:
    """Return what is wrong with a model; a trial of memory prints one line and ends instead.

    Args:
        options: `tpu`, `memory_trial` of the command line.
        settings: of the project.
        models: of the task.
        train_batches: of the training examples.
        build: returns the same models anew; must be picklable.
    """
    if options.memory_trial:
        memory.measure_step(build, train_batches, settings)
        sys.exit()
    faults = check_model(models.training, train_batches, build, settings)
    return faults or check_compilation(build, train_batches, settings, options.tpu)
