"""The settings of event extraction."""

from typing import ClassVar, Literal

from pydantic import Field

from core.base.settings import WindowSettings

# CasEE's four, and DuEE's.
Metric = Literal[
    "trigger_identification",
    "trigger_classification",
    "argument_identification",
    "argument_classification",
    "duee",
]


class Settings(WindowSettings):
    """The settings of core, of both models and of the metric."""

    task: ClassVar[str] = "Event extraction"

    model: Literal["gplinker", "crf"] = Field(
        "gplinker", description="gplinker: spans may overlap; crf: one tag for each token"
    )
    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: heads share query and key; plain: each has its own"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="size of the queries and keys")
    crf_learning_rate: float = Field(
        1e-2, gt=0, description="peak learning rate of the CRF's transitions"
    )
    metric: Metric = Field(
        "argument_classification",
        description="chooses the best epoch and, with whole events, the threshold",
    )
