"""The settings of named-entity recognition."""

from typing import ClassVar, Literal

from pydantic import Field

from core.base.settings import WindowSettings
from formats.settings import ConllTable


class Settings(WindowSettings):
    """The settings of core, those of models and threshold, and the table of CoNLL columns."""

    task: ClassVar[str] = "Named-entity recognition"

    # model
    tagger: Literal["pointer", "crf"] = Field(
        "pointer", description="pointer: entities may nest and overlap; crf: one tag per token"
    )
    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: heads share query and key; plain: each has its own"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="size of the queries and keys")
    crf_learning_rate: float = Field(
        1e-2, gt=0, description="peak learning rate of the CRF's transitions"
    )

    # evaluation
    threshold: Literal["one", "per_type"] = Field(
        "one", description="tuned on dev for all types together, or for each type"
    )
    beta: float = Field(
        1.0,
        gt=0,
        description="of F-beta, which chooses epoch and threshold; above 1 recall counts more",
    )

    conll: ConllTable = Field(default_factory=ConllTable, description="how columns are read")
