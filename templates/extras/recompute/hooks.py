"""Transformer layers that are computed twice, and batch sizes tried with them and without."""

import sys
from typing import Any

from core.training import Training
from extras.recompute import memory
from extras.recompute.recompute import recompute_layers


def prepare(training: Training) -> None:
    """Recompute every Transformer layer of the models, if the table asks for it."""
    if training.settings.recompute.enabled:
        recompute_layers(training.models.training)


def begin_checks(checks: Any) -> None:
    """Add `--memory` to the flags of check.py: it tries batch sizes and checks nothing."""
    checks.parser.add_argument("--memory", action="store_true")
    checks.parser.add_argument("--memory_trial", action="store_true")  # of each row of --memory
    checks.on_begin.append(memory.try_memory)


def check_training(checks: Any) -> None:
    """Measure one step and end, if a row of `--memory` asks for it."""
    if checks.options.memory_trial:
        memory.measure_step(checks.settings, checks.batches, checks.build)
        sys.exit()
