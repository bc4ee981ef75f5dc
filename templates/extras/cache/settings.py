"""The table [cache] of config.toml."""

import tomllib

from pydantic import Field

from core.base.settings import CONFIG, CoreSettings, SettingsTable

# Settings that change no number, so a resumed run may change them.
FREE = ("cache.enabled", "cache.folder", "cache.processes", "cache.beam")


class Table(SettingsTable):
    """Where what was encoded is kept, and who encodes."""

    enabled: bool = Field(False, description="keep what was encoded in files, and read it there")
    folder: str = Field("cache", min_length=1, description="of these files; it may be deleted")
    processes: int = Field(0, ge=0, description="that encode a large file; 0: one for each core")
    beam: str = Field("", description="options of Apache Beam, whose workers encode; empty: none")


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    cache: Table = Field(default_factory=Table)


_used: list[Table] = []


def complete(settings: Settings) -> None:
    """Note the table: files are read by functions that are not given the settings."""
    _used[:] = [settings.cache]


def table_in_use() -> Table:
    """Return the table of the settings that were read last, or else that of config.toml."""
    if _used:
        return _used[0]
    try:
        values = tomllib.loads(CONFIG.read_text("utf-8-sig"))
        return Table.model_validate(values.get("cache", {}))
    except (
        OSError,
        ValueError,
        RecursionError,
    ):  # whoever reads the settings says what is wrong with them
        return Table()
