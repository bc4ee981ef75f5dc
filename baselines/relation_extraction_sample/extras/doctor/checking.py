"""The common part of check.py: options, checks of the model, conclusion."""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.base.extras import ask, how_to_get, present
from core.base.settings import AnySettings, CoreSettings, read_settings
from core.data.data_checks import Finding
from core.data.data_generator import DataGenerator
from core.train.training import Models
from extras.doctor.model_checks import build_as_trained, check_model


def begin_checks(
    task_class: type[AnySettings], flags: list[str] | None = None
) -> tuple[argparse.Namespace, AnySettings]:
    """Return the options of check.py and the settings; run `--memory` and exit.

    Raises:
        InputError: a flag is wrong, or needs an extra that this project lacks.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--tpu", default="", metavar="TOPOLOGY")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--memory_trial", action="store_true")  # --memory runs this for each row
    options, others = parser.parse_known_args(flags)
    settings = read_settings(task_class, others)
    for flag, extra in (("tpu", "tpu"), ("memory", "recompute")):
        if getattr(options, flag) and extra not in present():
            raise InputError(f"--{flag} needs extras/{extra}: {how_to_get(extra)}.")
    if options.memory and ask("try_batch_sizes", settings, others):
        sys.exit()
    if not options.memory_trial:
        # Exact, and with two replicas on any machine.
        tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(settings.seed)
    return options, settings


def stop_at_errors(findings: Sequence[Finding]) -> None:
    """Conclude if the data has errors, because a model check needs correct data."""
    if any(finding.level == "error" for finding in findings):
        conclude(findings)


def finish_checks(
    options: argparse.Namespace,
    settings: CoreSettings,
    findings: list[Finding],
    models: Models,
    train_batches: DataGenerator,
    build: Callable[[], Models],
) -> None:
    """Check the model on one batch, print the findings, and exit; or measure its memory.

    Args:
        options: from `begin_checks`; `findings` are about the data.
        build: builds the same models again; must be picklable.
    """
    if options.memory_trial and ask("measure_step", settings, train_batches, build):
        sys.exit()
    faults = check_model(models.training, train_batches, build, settings)
    if not faults:
        compiled = functools.partial(build_as_trained, build, settings)
        faults = ask("check_compilation", compiled, train_batches, settings, options.tpu) or []
    if options.tpu or settings.strategy == "tpu":
        # A warning about TPUs is an error with --tpu.
        faults = [replace(fault, level="error") for fault in faults]
    conclude([*findings, *faults])


def conclude(findings: Sequence[Finding]) -> None:
    """Print the findings and exit: 1 if something must be fixed first, else 0."""
    print("", *findings, sep="\n")
    errors = sum(finding.level == "error" for finding in findings)
    print(f"errors: {errors}, warnings: {len(findings) - errors}" if findings else "sound")
    sys.exit(1 if errors else 0)
