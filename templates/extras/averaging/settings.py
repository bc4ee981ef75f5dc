"""The table [averaging] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable


class Table(SettingsTable):
    """The averages of weights to score and keep."""

    ema: float = Field(0.0, ge=0, lt=1, description="momentum of the averaged weights; 0: none")
    soup: int = Field(0, ge=0, description="number of best weights to average at the end; 0: none")


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    averaging: Table = Field(default_factory=Table)
