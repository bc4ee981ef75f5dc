"""The table [extraction] of config.toml."""

from typing import Any, Literal

from pydantic import Field

from core.base.settings import RecordSettings, SettingsTable


class Table(SettingsTable):
    """What a writer extracts, and the names it may use."""

    kind: Literal["", "triples", "events"] = Field("", description="what is extracted; empty: off")
    names: list[str] = Field(
        [], description="predicates, or types and their roles; empty: those of the training file"
    )


class Settings(RecordSettings):
    """The settings of a project that has this extra."""

    generation: Any = None
    extraction: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse names if extraction is off."""
    table = settings.extraction
    if table.names and not table.kind:
        return "extraction.names are of what is extracted: set extraction.kind, or names = []"
    return None
