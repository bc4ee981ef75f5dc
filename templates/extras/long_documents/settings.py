"""The table [long_documents] of config.toml."""

from typing import Self

from pydantic import Field, model_validator

from core.base.settings import RecordSettings, SettingsTable


class Table(SettingsTable):
    """Texts that are longer than the encoder reads at once."""

    window: int = Field(0, ge=0, description="tokens that the encoder reads at once; 0: all")
    overlap: int = Field(128, ge=0, description="tokens that two neighbouring windows share")

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse windows that would mostly repeat each other."""
        if self.window and self.overlap > self.window // 2:
            raise ValueError(
                f"overlap = {self.overlap} is more than half of window = {self.window}: set it to "
                f"{self.window // 2} or less"
            )
        if 0 < self.window < 8:
            raise ValueError(f"window = {self.window} is too short: set it to 8 or more, or to 0")
        return self


class Settings(RecordSettings):
    """The settings of a project that has this extra."""

    long_documents: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse windows that change nothing, and a pooling that would read only the first one."""
    window = settings.long_documents.window
    if window and window >= settings.max_length:
        return (
            f"long_documents.window = {window} is no less than max_length = {settings.max_length}: "
            "set max_length to the length of your documents, or window = 0"
        )
    if window and getattr(settings, "pooling", "") == "cls":
        return (
            'pooling = "cls" reads the first token, which knows only the first window of a long '
            'document: set pooling = "mean" or "attention"'
        )
    return None
