"""The settings of pre-training."""

from task.preparation_settings import PreparationSettings


class Settings(PreparationSettings):
    """All settings."""
