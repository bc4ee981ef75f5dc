"""Encoders of families and files that KerasHub does not read."""

from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.encoders import loading, processors, vocabularies


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the encoder of a folder; None: its family is not known here."""
    return loading.load_backbone(settings, folder)


def load_slow_tokenizer(name: str, folder: Path | None) -> Tokenizer | None:
    """Return the tokenizer of a folder without tokenizer.json, or of a preset of KerasHub.

    Args:
        name: of the encoder in the settings.
        folder: None: it is a preset.

    Returns:
        None: core reads what is there.
    """
    return vocabularies.load_tokenizer(folder) if folder else vocabularies.preset_tokenizer(name)


def find_precision(settings: CoreSettings) -> tuple[str, str]:
    """Return the fastest precision of the devices that train, and why."""
    return processors.find_precision(settings)


def compute_in_one_pass(parts: Callable, inputs: tf.Tensor) -> tuple[tf.Tensor, Callable] | None:
    """Return an activation of bfloat16 and its gradient, on processors."""
    return processors.compute_in_one_pass(parts, inputs)
