"""The table [regularization] of config.toml."""

from typing import Any, Literal, Self

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
    focal_gamma: float = Field(
        0.0, ge=0, le=10, description="power of 1 - p in the loss of what has probability p"
    )
    span_smoothing: float = Field(
        0.0, ge=0, lt=0.5, description="share of a true span's label that spans near it get"
    )
    smoothing_distance: int = Field(1, ge=1, le=4, description="how far, in tokens")
    dropout_samples: int = Field(
        0, ge=0, le=32, description="dropout masks of the hidden states in a step; 0: no dropout"
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
    """Refuse what has no meaning together."""
    recompute = getattr(settings, "recompute", None)
    if settings.regularization.gradient_penalty and recompute and recompute.enabled:
        return (
            "gradient_penalty with recompute: what is computed again has no second derivatives, so "
            "set gradient_penalty = 0, or enabled = false in the table recompute"
        )
    if settings.regularization.adversary == "awp" and recompute and recompute.enabled:
        return (
            "adversary = awp with recompute: layers would be computed again without their shift: "
            "choose another adversary, or set enabled = false in the table recompute"
        )
    return complain_of_losses(settings) or complain_of_samples(settings)


def complain_of_losses(settings: Any) -> str | None:
    """Refuse other losses where a task has none of these, or has a setting of its own."""
    table: Table = settings.regularization
    smoothing = getattr(settings, "label_smoothing", None)
    if table.span_smoothing and smoothing is not None:
        return (
            "regularization.span_smoothing is for entities, relations and events: set it to 0, and "
            "set label_smoothing"
        )
    if table.focal_gamma and getattr(settings, "output", "labels") == "number":
        return 'regularization.focal_gamma is for labels, and output = "number": set it to 0'
    if table.focal_gamma and smoothing and settings.task == "Reading comprehension":
        return (
            "focal_gamma needs the probability of the answers, which label_smoothing mixes with "
            "others: set regularization.focal_gamma or label_smoothing to 0"
        )
    return None


def complain_of_samples(settings: Any) -> str | None:
    """Refuse dropout samples where a task has its own, or where nothing is dropped."""
    if not settings.regularization.dropout_samples:
        return None
    if hasattr(settings, "dropout_samples"):
        return "set dropout_samples, and regularization.dropout_samples to 0"
    if not settings.dropout:
        return (
            "dropout = 0 makes all dropout samples alike: set dropout = 0.1, or "
            "regularization.dropout_samples to 0"
        )
    return None
