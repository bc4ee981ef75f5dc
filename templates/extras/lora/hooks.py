"""Updates of low rank are trained, and become part of the weights of a run that is loaded."""

from pathlib import Path

from tokenizers import Tokenizer

from core.runs.run_folder import Run
from core.train.training import Models
from extras.lora.adapters import adapt_layers
from extras.lora.base import check_base, read_base_again
from extras.lora.settings import Settings


def change_layers(settings: Settings, models: Models) -> None:
    """Freeze the encoder and give its kernels updates, where the table asks for it."""
    if settings.lora.rank:
        adapt_layers(settings, models.encoder)


def note_base(settings: Settings, run: Run, models: Models) -> None:
    """Keep in a new run what its frozen weights are; refuse others in one that goes on."""
    if settings.lora.rank:
        check_base(settings, run, models.encoder)


def restore_base(settings: Settings, folder: Path, models: Models, tokenizer: Tokenizer) -> None:
    """Give a run's encoder the weights that its training began with, ready for the updates."""
    if settings.lora.rank:
        read_base_again(settings, folder, models.encoder, tokenizer)
