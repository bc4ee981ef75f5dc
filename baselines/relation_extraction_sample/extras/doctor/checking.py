"""The frame of check.py: its flags, the checks of the model, and how it ends."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.base.extras import call_all, how_to_get
from core.base.settings import AnySettings, read_settings
from core.batches import Batch, DataGenerator
from core.data.checks import Finding
from core.devices.gpu import find_unused_gpu
from core.step import Models, TrainingModel
from extras.doctor.model_checks import build_as_trained, check_model

# Flag -> the extra that adds it, for the message where its folder is absent.
FLAGS = {"--tpu": "tpu", "--memory": "recompute"}


def make_parser() -> argparse.ArgumentParser:
    """Return a parser that leaves the flags it does not know to the settings."""
    return argparse.ArgumentParser(add_help=False, allow_abbrev=False)


@dataclass
class Checks:
    """One call of check.py; extras change it in their hooks begin_checks and check_training.

    Attributes:
        parser: of the flags that are not settings; an extra adds its own in `begin_checks`.
        options: the values of these flags; `flags`: all other flags.
        settings: of the project.
        on_begin: called when options and settings are read; may end the program.
        only_measures: one step is measured on the device that trains, and nothing is checked.
        findings: about the data.
        models: of the task; `batches` of the training examples. Both are there for
            `check_training`, as is `build`, which returns the same models anew; picklable.
        before_gradient: more checks of the training model and a batch, before its first gradient.
        at_end: more checks, which run if the model has no fault so far.
        strict: a warning about the model is an error.
    """

    parser: argparse.ArgumentParser = field(default_factory=make_parser)
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    flags: list[str] = field(default_factory=list)
    settings: Any = None
    on_begin: "list[Callable[[Checks], None]]" = field(default_factory=list)
    only_measures: bool = False
    findings: list[Finding] = field(default_factory=list)
    models: Any = None
    batches: Any = None
    build: Any = None
    before_gradient: list[Callable[[TrainingModel, Batch], list[Finding]]] = field(
        default_factory=list
    )
    at_end: list[Callable[[], list[Finding]]] = field(default_factory=list)
    strict: bool = False

    def compiled_model(self) -> TrainingModel:
        """Return the training model anew, as a training compiles it but without XLA."""
        return build_as_trained(self.build, self.settings, self.batches)


def begin_checks(
    task_class: type[AnySettings], flags: list[str] | None = None
) -> tuple[Checks, AnySettings]:
    """Read the flags of check.py; return the checks and the settings of the project.

    Raises:
        InputError: a flag is wrong, or needs an extra that this project lacks.
    """
    checks = Checks()
    call_all("begin_checks", checks)
    checks.options, checks.flags = checks.parser.parse_known_args(flags)
    for flag in checks.flags:
        if extra := FLAGS.get(flag.partition("=")[0]):
            raise InputError(f"{flag} needs extras/{extra}: {how_to_get(extra)}.")
    checks.settings = settings = read_settings(task_class, checks.flags)
    checks.strict = settings.strategy == "tpu"
    for begin in checks.on_begin:
        begin(checks)
    if not checks.only_measures:  # a CPU is exact, and can be split into two replicas
        tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(settings.seed)
    return checks, settings


def find_device_faults() -> list[Finding]:
    """Return an error if this machine has a GPU that TensorFlow can't use."""
    what, _, fix = find_unused_gpu().partition(": ")
    return [Finding("error", what, "this machine", fix)] if what else []


def stop_at_errors(findings: list[Finding]) -> None:
    """Conclude now if the data has errors: a model would be tried on data that must change."""
    if any(finding.level == "error" for finding in findings):
        conclude(findings)


def finish_checks(
    checks: Checks,
    findings: list[Finding],
    models: Models,
    batches: DataGenerator,
    build: Callable[[], Models],
) -> None:
    """Check the model on one batch, print what was found, and exit.

    Args:
        checks: from `begin_checks`.
        findings: about the data.
        models: of the task.
        batches: of the training examples.
        build: returns the same models anew; must be picklable.
    """
    checks.findings, checks.models, checks.batches, checks.build = findings, models, batches, build
    call_all("check_training", checks)
    settings, further = checks.settings, checks.before_gradient
    faults = check_model(models.training, batches, build, settings, further)
    for check in checks.at_end:
        faults = faults or check()
    if checks.strict:
        faults = [replace(fault, level="error") for fault in faults]
    conclude([*find_device_faults(), *checks.findings, *faults])


def conclude(findings: list[Finding]) -> None:
    """Print what was found, and exit: 1 if there is an error, else 0."""
    print("", *findings, sep="\n")
    levels = [finding.level for finding in findings]
    counts = {level: levels.count(level) for level in ("error", "warning", "note")}
    shown = [f"{level}s: {n}" for level, n in counts.items() if n or level != "note"]
    print(", ".join(shown) if findings else "sound")
    sys.exit(1 if counts["error"] else 0)
