"""The table [recompute] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable


class Table(SettingsTable):
    """Less memory for more time."""

    enabled: bool = Field(False, description="compute layers twice instead of storing them")


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    recompute: Table = Field(default_factory=Table)
