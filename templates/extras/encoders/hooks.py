"""Encoders of families and files that KerasHub does not read."""

from pathlib import Path

import keras
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from core.training import Training
from extras.encoders import (
    google,
    last_layers,
    loading,
    memory,
    vocabularies,
)


def find_config(folder: Path) -> Path | None:
    """Return the file that describes the encoder of a folder, if it has one that is known here."""
    return google.find_config(folder)


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the encoder of a folder; None: its family is not known here."""
    return loading.load_backbone(settings, folder)


def load_tokenizer(
    name: str, folder: Path | None, settings: CoreSettings | None = None
) -> Tokenizer | None:
    """Return the tokenizer of a folder, or of a preset of KerasHub.

    Args:
        name: of the encoder in the settings.
        folder: of the encoder, or of a run; None: it is a preset.
        settings: of the project; a run has its own.

    Returns:
        None: core reads what is there.
    """
    return vocabularies.load_tokenizer(folder) if folder else vocabularies.preset_tokenizer(name)


def joined_layers(encoder: keras.Model, settings: CoreSettings) -> keras.Model | None:
    """Return the encoder whose last layers are joined; None: the heads read its last one."""
    table = getattr(settings, "encoders", None)  # other programs have settings without tables
    count = table.last_layers if table else 0
    return last_layers.join_last_layers(encoder, count) if count > 1 else None


def prepare(training: Training) -> None:
    """Warn before the first step where long windows don't fit into memory."""
    memory.warn_of_memory(training.settings, training.models)
