"""The table [cluster] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable

STRATEGIES = ("multi_worker",)
FREE = ("cluster.port",)


class Table(SettingsTable):
    """How the workers of several machines find each other."""

    port: int = Field(12345, ge=1, le=65535, description="port of the workers of a cluster")


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    cluster: Table = Field(default_factory=Table)
