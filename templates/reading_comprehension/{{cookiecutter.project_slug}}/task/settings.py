"""The settings of reading comprehension."""

from typing import ClassVar, Literal

from pydantic import Field

from core.base.settings import WindowSettings


class Settings(WindowSettings):
    """The settings of core, and those of the pointer, the answers and the score."""

    task: ClassVar[str] = "Reading comprehension"
    free_settings: ClassVar[tuple[str, ...]] = ("n_best",)

    pointer: Literal["efficient", "plain"] = Field(
        "efficient", description="efficient: also scores starts and ends; plain: only pairs"
    )
    pointer_size: int = Field(64, ge=2, multiple_of=2, description="size of the queries and keys")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="fraction of the loss that all possible pairs share; 0: off"
    )
    answers: Literal["marginal", "sample"] = Field(
        "marginal", description="all gold answers at once, or one drawn for each epoch"
    )
    answer_length: int = Field(30, ge=1, description="longest answer to predict, in tokens")
    n_best: int = Field(5, ge=1, description="answers of each question in the predictions")
    length_prior: float = Field(
        0.0, ge=0, description="weight of the log-probability of an answer's length; 0: off"
    )
    metric: Literal["squad", "cmrc2018"] = Field(
        "squad", description="whose EM and F1: SQuAD's, or CMRC2018's for Chinese"
    )
