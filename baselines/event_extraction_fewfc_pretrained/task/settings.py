"""The settings of event extraction."""

from typing import Literal

from pydantic import Field, model_validator

from common.settings import WindowSettings


class Settings(WindowSettings):
    """The common settings and those of windows, models and the deciding metric."""

    model: Literal["gplinker", "crf"] = Field(
        "gplinker", description="gplinker: spans may overlap; crf: one tag for each token"
    )
    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: few weights a head; plain: its own query and key"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="query and key of a pointer")
    crf_learning_rate: float = Field(1e-2, gt=0, description="peak rate of the CRF's transitions")
    metric: Literal[
        "trigger_identification",
        "trigger_classification",
        "argument_identification",
        "argument_classification",
        "duee",
    ] = Field("argument_classification", description="chooses the best epoch and the threshold")

    @model_validator(mode="after")
    def check_model(self):
        """Refuse what only the pointers can do."""
        if self.model == "crf" and (self.r_drop or self.virtual_adversary):
            raise ValueError(
                "r_drop and virtual_adversary compare the answers to questions that are "
                "independent, which the tags of a CRF are not: set both to 0, or model = gplinker"
            )
        return self
