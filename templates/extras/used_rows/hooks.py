"""Train only the embeddings of the tokens in the training data, and save all."""

from core.training import Training
from extras.used_rows.used_rows import train_used_rows


def prepare(training: Training) -> None:
    """Train only the rows of the tokens in the batches, where the table asks for it."""
    if training.settings.used_rows.enabled:
        train_used_rows(training.models, training.batches)
