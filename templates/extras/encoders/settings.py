"""The table [encoders] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable

# Tasks whose models read the layers of the encoder one by one, or predict its tokens.
WITHOUT = ("Seq2seq", "Pre-training")


class Table(SettingsTable):
    """What the heads read of an encoder."""

    last_layers: int = Field(
        0, ge=0, description="join the hidden states of so many last layers; 0: the last one only"
    )


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    encoders: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse joined layers where a task has no head that could read them."""
    if settings.encoders.last_layers and settings.task in WITHOUT:
        return (
            "encoders.last_layers joins layers for the head of a task, and this one has none: set "
            "it to 0"
        )
    return None
