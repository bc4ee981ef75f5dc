"""The table [competition] of config.toml."""

from typing import Literal

from pydantic import Field, field_validator

from core.base.settings import CoreSettings, SettingsTable

FILES = ("competition.sample_submission",)


class Table(SettingsTable):
    """Columns of tables, losses of numbers, and options of competition scores."""

    text_column: str = Field("", description="column of the text; empty: found by name")
    pair_column: str = Field("", description="column of the second text; empty: one text")
    label_column: str = Field("", description="column of the label; empty: found by name")
    label_separator: str = Field("", description="separates labels in a cell; empty: one label")
    target_columns: str = Field("", description="columns of numbers, or of labels with 0 and 1")
    one_label: bool = Field(False, description="exactly one of the target_columns is 1 in a row")
    id_column: str = Field("", description="column of the ids; empty: found by name")
    group_column: str = Field("", description="records of one group are ranked")
    fold_group_column: str = Field("", description="records of one such group share a fold")
    weight_column: str = Field("", description="column of the weight of a record in the loss")
    sample_submission: str = Field("", description="the competition's own sample_submission.csv")
    encoding: str = Field("utf-8", description="encoding of .csv and .tsv")
    loss: Literal["mse", "huber", "bce", "ordinal"] = Field("mse", description="loss of numbers")
    huber_delta: float = Field(1.0, gt=0, description="where huber becomes linear, in deviations")
    hierarchy: str = Field("", description="separates the parts of a label path; empty: no paths")
    thresholds: Literal["one", "per_label"] = Field("one", description="of several labels")
    k: int = Field(3, ge=1, description="answers that count in map_at_k, ndcg_at_k and top_k")
    beta: float = Field(0.5, gt=0, description="of f_beta: below 1 precision counts more")

    @field_validator("encoding")
    @classmethod
    def check_encoding(cls, name: str) -> str:
        """Refuse an encoding unknown to Python."""
        try:
            "a".encode(name)
        except LookupError as error:
            raise ValueError("Python has no such encoding: utf-8, cp1252, gb18030") from error
        return name

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names in `target_columns`."""
        names = (name.strip() for name in self.target_columns.split(","))
        return tuple(dict.fromkeys(name for name in names if name))


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    competition: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse settings that this task does not read or that don't fit together."""
    if getattr(settings, "task", "") != "Text classification":
        if settings.competition == Table():
            return None
        return "only text classification reads the table competition: leave it as it was"
    if getattr(settings, "output", "labels") != "number":  # a bi-encoder's settings lack it
        return None
    if settings.competition.one_label:
        return 'one_label is of labels: leave it as it was with "number"'
    if settings.competition.hierarchy or settings.competition.thresholds != "one":
        return 'hierarchy and thresholds are of labels: leave them as they were with "number"'
    if settings.class_weights != "none" or settings.label_smoothing:  # type: ignore[attr-defined]
        return 'class_weights and label_smoothing are of labels: leave them out with "number"'
    return None
