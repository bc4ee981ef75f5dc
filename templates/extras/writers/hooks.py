"""Pretrained writers in the place of the models of text generation, where `model` asks for one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.settings import CoreSettings
from extras.writers import families, files, packing
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


def pack_pairs(settings: Settings, pairs: Any) -> packing.PackedGenerator | None:
    """Return training batches with several examples in a row, where the table asks for them.

    Args:
        settings: `max_length`, `target_length`, and the table `writers`.
        pairs: batches with one example in a row.
    """
    if not settings.writers.packing:
        return None
    known: Any = settings
    return packing.pack(pairs, known.max_length + known.target_length)


def write_rows(
    settings: Settings, encoder: Any, inputs: dict
) -> tuple[dict, keras.KerasTensor] | None:
    """Return inputs and logits of a model of such rows; None: it reads one example in each.

    Args:
        settings: the table `writers`.
        encoder: the writer.
        inputs: of the model that reads one example in a row, by name.
    """
    return packing.write_rows(encoder, inputs) if settings.writers.packing else None
