"""Fewer rows of the embedding are trained, and all are saved."""

from core.data.data_generator import DataGenerator
from core.train.training import Models
from extras.used_rows.settings import Settings
from extras.used_rows.used_rows import train_used_rows


def keep_used_rows(settings: Settings, models: Models, train_batches: DataGenerator) -> None:
    """Train the embeddings of the tokens in the batches alone, where the table asks for it."""
    if settings.used_rows.enabled:
        train_used_rows(models, train_batches)
