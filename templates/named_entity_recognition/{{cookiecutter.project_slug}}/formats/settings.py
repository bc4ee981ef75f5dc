"""The table [conll] of config.toml: the columns of CoNLL files."""

from typing import Literal

from pydantic import Field, field_validator

from core.base.settings import SettingsTable


class ConllTable(SettingsTable):
    """How CoNLL columns are read."""

    token_column: int = Field(1, description="column of the tokens, from 1; -1 is the last")
    tag_column: int = Field(-1, description="column of the tags, from 1; -1 is the last")
    scheme: Literal["auto", "bio1", "bio2", "bioes", "bilou", "bmes"] = Field(
        "auto", description="how tags mark entities; auto: found from the tags of the file"
    )
    broken_tags: Literal["refuse", "begin", "drop"] = Field(
        "refuse", description="begin: starts an entity (conlleval); drop: none (seqeval, strict)"
    )
    join: Literal["auto", "space", "none"] = Field(
        "auto", description="between tokens; auto: a space, but none next to a Chinese character"
    )

    @field_validator("token_column", "tag_column")
    @classmethod
    def check_column(cls, column: int) -> int:
        """Refuse column 0."""
        if column == 0:
            raise ValueError("columns are counted from 1, or from -1 for the last one")
        return column
