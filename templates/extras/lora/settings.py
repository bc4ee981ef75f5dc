"""The table [lora] of config.toml."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from core.base.settings import CoreSettings, SettingsTable


class Table(SettingsTable):
    """Low-rank updates instead of training the encoder's weights."""

    parts: ClassVar = ("query", "key", "value", "output", "feedforward")

    rank: int = Field(0, ge=0, description="rank of the updates; 0: train all weights")
    alpha: float = Field(16.0, gt=0, description="an update is multiplied by alpha / rank")
    layers: str = Field("all", description="which kernels get an update")
    base: Literal["float", "int8", "int4"] = Field(
        "float", description="how these kernels are kept"
    )

    @field_validator("layers")
    @classmethod
    def check_layers(cls, layers: str) -> str:
        """Refuse unknown parts of a Transformer layer."""
        if layers != "all" and not set(split_names(layers)) <= set(cls.parts):
            raise ValueError(f"write all, or some of {', '.join(cls.parts)} with commas between")
        return layers


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    lora: Table = Field(default_factory=Table)


def split_names(layers: str) -> list[str]:
    """Return the names between commas."""
    return [name.strip() for name in layers.split(",")]


def complain(settings: Settings) -> str | None:
    """Refuse settings that train or shift frozen weights, and untried combinations."""
    if not settings.lora.rank:
        return None
    used_rows = getattr(settings, "used_rows", None)
    regularization = getattr(settings, "regularization", None)
    reason = mend = ""
    if used_rows and used_rows.enabled:
        reason = "used_rows, which trains embeddings that stay as they are here"
        mend = "used_rows.enabled = false"
    elif regularization and regularization.adversary in ("fgm", "pgd"):
        reason = f"adversary = {regularization.adversary}, which shifts embeddings by a gradient"
        reason, mend = f"{reason} that frozen ones don't have", "adversary = none"
    elif regularization and (regularization.gradient_penalty or regularization.virtual_adversary):
        reason = "gradient_penalty or virtual_adversary, which need the gradient of embeddings"
        mend = "both to 0"
    elif settings.strategy == "parameter_server":
        reason, mend = "strategy = parameter_server, which was never tried", "another strategy"
    return reason and f"lora with {reason}: set lora.rank = 0, or {mend}"
