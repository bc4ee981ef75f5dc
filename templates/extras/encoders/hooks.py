"""Encoders of families and files that KerasHub does not read."""

from pathlib import Path

import keras
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.encoders import loading, vocabularies


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
