"""The table [conll] of config.toml: what the columns of a file are."""

from typing import Literal

from pydantic import Field, field_validator

from core.base.settings import SettingsTable


class ConllTable(SettingsTable):
    """How CoNLL columns are read."""

    token_column: int = Field(1, description="column of the tokens, from 1; -1 is the last")
    tag_column: int = Field(-1, description="column of the tags, from 1; -1 is the last")
    scheme: Literal["auto", "bio1", "bio2", "bioes", "bilou", "bmes"] = Field(
        "auto", description="how tags mark entities; auto: as the tags of the file tell"
    )
    broken_tags: Literal["refuse", "begin", "drop"] = Field(
        "refuse", description="begin: an entity, as conlleval has it; drop: seqeval's strict mode"
    )
    join: Literal["auto", "space", "none"] = Field(
        "auto", description="what stands between tokens; auto: nothing beside a Chinese character"
    )

    @field_validator("token_column", "tag_column")
    @classmethod
    def check_column(cls, column: int) -> int:
        """Refuse a column that no counting has."""
        if column == 0:
            raise ValueError("columns are counted from 1, or from -1 for the last one")
        return column
