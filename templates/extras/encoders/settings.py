"""The table [encoders] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable


class Table(SettingsTable):
    """What the heads read of an encoder, and what replaces its tokens."""

    last_layers: int = Field(
        0, ge=0, description="join the hidden states of so many last layers; 0: the last one only"
    )
    generator: str = Field(
        "", description="masked language model that replaces tokens; empty: drawn by frequency"
    )


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    encoders: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse joined layers where no head could read them, and a generator that nothing asks."""
    if settings.encoders.generator and getattr(settings, "objective", "") != "replaced":
        return (
            'encoders.generator replaces tokens for objective = "replaced" of pre-training: leave '
            "it empty"
        )
    # Their models read the layers of the encoder one by one, or predict its tokens.
    if settings.encoders.last_layers and settings.task in ("Seq2seq", "Pre-training"):
        return (
            "encoders.last_layers joins layers for the head of a task, and this one has none: set "
            "it to 0"
        )
    return None
