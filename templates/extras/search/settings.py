"""The table [search] of config.toml."""

from typing import Any, Literal

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable

# They change no weight of a training.
FREE = tuple(
    f"search.{name}"
    for name in ("trials", "pruner", "startup_trials", "keep_best", "seeds", "seed")
)


class Table(SettingsTable):
    """A search over settings."""

    trials: int = Field(20, ge=1, description="trainings of a search")
    pruner: Literal["median", "hyperband", "none"] = Field(
        "median", description="what stops trials that fall behind"
    )
    startup_trials: int = Field(5, ge=0, description="trials before the median stops any")
    keep_best: int = Field(3, ge=1, description="trials that keep their weights")
    seeds: int = Field(2, ge=0, description="further seeds to confirm the best settings with")
    seed: int = Field(1, ge=0, lt=2**32, description="draws the settings to try")
    # Not kept with a run, which has one value of each setting: only search.py reads it.
    space: dict[str, Any] = Field(
        default_factory=dict, exclude=True, description="setting -> its range or its values"
    )


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    search: Table = Field(default_factory=Table)
