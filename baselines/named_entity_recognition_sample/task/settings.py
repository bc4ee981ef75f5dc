"""The settings of named-entity recognition."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from core.base.settings import WindowSettings


class Settings(WindowSettings):
    """The settings of core, and those of CoNLL files, of the models and of the threshold."""

    task: ClassVar[str] = "Named-entity recognition"

    # CoNLL files
    token_column: int = Field(1, description="column of the tokens, from 1; -1 is the last")
    tag_column: int = Field(-1, description="column of the tags, from 1; -1 is the last")
    tag_scheme: Literal["auto", "bio1", "bio2", "bioes", "bilou", "bmes"] = Field(
        "auto", description="how tags mark entities; auto: as the tags of the file tell"
    )
    broken_tags: Literal["refuse", "begin", "drop"] = Field(
        "refuse", description="begin: an entity, as conlleval has it; drop: seqeval's strict mode"
    )
    join_tokens: Literal["auto", "space", "none"] = Field(
        "auto", description="what stands between tokens; auto: nothing beside a Chinese character"
    )

    # model
    tagger: Literal["pointer", "crf"] = Field(
        "pointer", description="pointer: entities may nest and overlap; crf: one tag a token"
    )
    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: few weights a head; plain: its own query and key"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="query and key of a pointer")
    crf_learning_rate: float = Field(1e-2, gt=0, description="peak rate of the CRF's transitions")

    # evaluation
    threshold: Literal["one", "per_type"] = Field(
        "one", description="tuned on dev for all types together, or for each"
    )
    beta: float = Field(1.0, gt=0, description="of F-beta, which decides; above 1 recall counts more")

    @field_validator("token_column", "tag_column")
    @classmethod
    def check_column(cls, column: int) -> int:
        """Refuse a column that no counting has."""
        if column == 0:
            raise ValueError("columns are counted from 1, or from -1 for the last one")
        return column
