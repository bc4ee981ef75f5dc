"""Train low-rank updates (LoRA); a run that is loaded has them in its weights."""

import functools
from pathlib import Path

from tokenizers import Tokenizer

from core.step import Models
from core.training import Training
from extras.lora.adapters import adapt_layers
from extras.lora.base import check_base, read_base_again
from extras.lora.settings import Settings


def prepare(training: Training) -> None:
    """Freeze the encoder and give its kernels low-rank updates, where the table asks for it.

    A new run keeps the hash of its frozen weights; a resumed one refuses other weights.
    """
    settings, encoder = training.settings, training.models.encoder
    if settings.lora.rank:
        adapt_layers(settings, encoder)
        training.on_begin.append(functools.partial(check_base, settings, training.run, encoder))


def restore_base(settings: Settings, folder: Path, models: Models, tokenizer: Tokenizer) -> None:
    """Give a run's encoder the weights that its training began with, ready for the updates."""
    if settings.lora.rank:
        read_base_again(settings, folder, models.encoder, tokenizer)
