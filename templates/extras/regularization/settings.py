"""The table [regularization] of config.toml."""

from typing import Literal, Self

from pydantic import Field, model_validator

from core.base.settings import CoreSettings, SettingsTable

FILES = ("regularization.unlabelled_file",)
FREE = ("regularization.curve_records",)


class Table(SettingsTable):
    """Additional parts of a step's gradient, and the learning curve."""

    adversary: Literal["none", "fgm", "pgd", "awp"] = Field(
        "none", description="who shifts embeddings, or weights, to where the loss is higher"
    )
    adversary_size: float = Field(1.0, gt=0, description="maximum length of that shift")
    weight_shift: float = Field(0.01, gt=0, description="of awp: that of a kernel, in its lengths")
    gradient_penalty: float = Field(0.0, ge=0, description="weight of the embeddings' gradient")
    r_drop: float = Field(0.0, ge=0, description="weight of the divergence of two dropout passes")
    virtual_adversary: float = Field(
        0.0, ge=0, description="weight of how far a shift of the embeddings moves answers"
    )
    unlabelled_file: str = Field("", description="records for virtual_adversary; empty: train_file")
    curve_records: int = Field(
        0, ge=0, description="training records to score besides dev, for the report; 0: none"
    )

    @model_validator(mode="after")
    def check_file(self) -> Self:
        """Refuse a file that is not used."""
        if self.unlabelled_file and not self.virtual_adversary:
            raise ValueError(
                f"unlabelled_file = {self.unlabelled_file!r} with virtual_adversary = 0, the "
                "only reader of the file: set both, or neither"
            )
        return self


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    regularization: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse second derivatives of recomputed layers."""
    recompute = getattr(settings, "recompute", None)
    if settings.regularization.gradient_penalty and recompute and recompute.enabled:
        return (
            "gradient_penalty with recompute: what is computed again has no second derivatives, so "
            "set gradient_penalty = 0, or enabled = false in the table recompute"
        )
    return None
