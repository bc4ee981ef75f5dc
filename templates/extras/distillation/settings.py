"""The table [distillation] of config.toml."""

from pydantic import Field, field_validator, model_validator

from core.base.settings import RecordSettings, SettingsTable

FILES = ("distillation.files",)
LEAST, MOST = 1e-6, 1e6  # losses are float32, which rounds less to 0 and more to infinity


class Table(SettingsTable):
    """What else a model learns from: more files, and the weights of another run."""

    files: list[str] = Field([], description="more files to learn from, such as pseudo-labels")
    weights: list[float] = Field([], description="weight of the records of each file; []: 1")
    init_from: str = Field("", description="the run whose weights the training starts from")

    @field_validator("weights")
    @classmethod
    def check_weights(cls, weights: list[float]) -> list[float]:
        """Refuse weights that no loss can have."""
        if not all(LEAST <= weight <= MOST for weight in weights):
            raise ValueError(f"each weight must be a number from {LEAST:g} to {MOST:g}")
        return weights

    @model_validator(mode="after")
    def check_together(self) -> "Table":
        """Refuse another number of weights than of files."""
        if self.weights and len(self.weights) != len(self.files):
            raise ValueError(
                f"{len(self.weights)} weights for {len(self.files)} files: give one weight for "
                "each file, or none"
            )
        if len({*self.files}) < len(self.files):
            raise ValueError("files names a file twice: name each once, with the weight it is due")
        return self


class Settings(RecordSettings):
    """The settings of a project that has this extra."""

    distillation: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse what can't be learned from more files, or from other weights."""
    partial = getattr(settings, "lora", None), getattr(settings, "used_rows", None)
    rank, enabled = getattr(partial[0], "rank", 0), getattr(partial[1], "enabled", False)
    if settings.distillation.init_from and (rank or enabled):
        return (
            "distillation.init_from gives all weights, and lora and used_rows train only some of "
            "the encoder's own: leave init_from empty, or set lora.rank = 0 and used_rows.enabled "
            "= false"
        )
    writers = getattr(settings, "writers", None)
    if settings.distillation.files and getattr(writers, "packing", False):
        return (
            "writers.packing puts several records into a row, whose weights can't differ: set "
            "writers.packing = false, or leave distillation.files empty"
        )
    return None
