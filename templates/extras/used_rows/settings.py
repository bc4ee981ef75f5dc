"""The table [used_rows] of config.toml."""

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable


class Table(SettingsTable):
    """The rows of the embedding to train."""

    enabled: bool = Field(False, description="train only the embeddings of training tokens")


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    used_rows: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse settings that depend on the whole table, and untried combinations."""
    if not settings.used_rows.enabled:
        return None
    optimizers = getattr(settings, "optimizers", None)
    regularization = getattr(settings, "regularization", None)
    reason = mend = ""
    if optimizers and optimizers.kind in {"lamb", "adafactor"}:
        reason = f"optimizers.kind = {optimizers.kind}, whose steps depend on the whole table"
        mend = "optimizers.kind = adamw"
    elif regularization and regularization.virtual_adversary:
        reason = "virtual_adversary, whose noise shifts the whole table"
        mend = "virtual_adversary = 0"
    elif settings.strategy == "parameter_server":
        reason, mend = "strategy = parameter_server, which was never tried", "another strategy"
    return reason and f"used_rows with {reason}: set used_rows.enabled = false, or {mend}"
