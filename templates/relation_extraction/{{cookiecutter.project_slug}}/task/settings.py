"""The settings of relation extraction."""

from typing import ClassVar, Literal

from pydantic import Field

from core.base.settings import WindowSettings


class Settings(WindowSettings):
    """The settings of all tasks, such as `epochs` (core/base/settings.py), and of the pointers."""

    task: ClassVar[str] = "Relation extraction"

    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: heads share query and key; plain: each has its own"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="size of the queries and keys")
    entity_heads: Literal["shared", "per_predicate"] = Field(
        "shared", description="per_predicate where records are annotated for some predicates only"
    )
