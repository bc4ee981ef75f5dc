"""Pretrained writers in the place of the models of text generation, where `model` asks for one."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.writers import families, files
from extras.writers.settings import Settings


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the writer of a folder; None: an encoder is asked for."""
    return families.make_writer(settings, folder)


def load_tokenizer(name: str, folder: Path | None) -> Tokenizer | None:
    """Return the tokenizer of a writer's folder; None: it is not one, or core reads it."""
    family = families.FAMILIES.get(files.read_family(folder)) if folder else None
    return files.load_tokenizer(folder, family.is_decoder) if folder and family else None


def encode_prompts(
    tokenizer: Tokenizer, sources: Sequence[str], settings: Settings
) -> list[np.ndarray] | None:
    """Return the tokens of each prompt with its source; None: another model reads sources alone."""
    if getattr(settings, "model", None) != families.CHOSEN:
        return None
    return files.encode_prompts(tokenizer, sources, settings.writers.prompt, settings.max_length)
