"""What check.py does with records and a model: repeats, one batch on two replicas, XLA."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core.base.settings import CoreSettings
from core.data.data_checks import Finding
from core.data.data_generator import DataGenerator
from core.train.training import Models
from extras.doctor.compile_checks import check_compilation
from extras.doctor.model_checks import check_model
from extras.doctor.record_checks import (
    find_duplicates,
    find_leaks,
    find_leaks_of_first_texts,
    find_unseen_labels,
    label_histogram,
    length_histogram,
)


def find_record_faults(
    files: dict[str, list[Any]],
    texts_of: Callable[[Any], Sequence[str]],
    count_labels: Callable[[Sequence[Any]], Counter] | None,
) -> list[Finding]:
    """Return repeats, leaks, and labels that the training file never shows.

    The arguments are those of the function in core/data/data_checks.py that asks.
    """
    texts, first_texts = {}, {}
    for name, examples in files.items():
        rows = [(texts_of(example), example.line) for example in examples]
        texts[name] = [("\n".join(parts), line) for parts, line in rows]
        first_texts[name] = [(parts[0], line) for parts, line in rows if len(parts) > 1]
    findings = [*find_duplicates(texts), *find_leaks(texts)]
    findings += find_leaks_of_first_texts(first_texts)
    if count_labels:
        labels = {name: count_labels(examples) for name, examples in files.items()}
        findings += find_unseen_labels(labels)
    return findings


def draw_histogram(values: Sequence[int] | Counter, unit: str) -> list[str]:
    """Return lines of text: bars for lengths, or for how often each label stands."""
    if isinstance(values, Counter):
        return label_histogram(values, unit)
    return length_histogram(values, unit)


def examine(
    options: argparse.Namespace,
    settings: CoreSettings,
    models: Models,
    train_batches: DataGenerator,
    build: Callable[[], Models],
) -> list[Finding]:
    """Return what is wrong with a model; the arguments are those of `finish_checks` in core."""
    faults = check_model(models.training, train_batches, build, settings)
    faults = faults or check_compilation(build, train_batches, settings, options.tpu)
    # A warning of TPUs is an error where one is asked for.
    asked = options.tpu or settings.strategy == "tpu"
    return [replace(fault, level="error") for fault in faults] if asked else faults
