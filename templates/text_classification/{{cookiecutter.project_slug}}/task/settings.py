"""The settings of text classification."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from core.base.settings import RecordSettings
from library.class_weights import read_class_weights

FLOOR = "floor"


class Settings(RecordSettings):
    """The settings of all tasks, such as `epochs` (core/base/settings.py), and of classifiers."""

    task: ClassVar[str] = "Text classification"
    free_settings: ClassVar[tuple[str, ...]] = ("floor",)  # may change when a run is resumed

    output: Literal["labels", "number"] = Field(
        "labels", description="number: one or several for each record, with extras/competition"
    )
    pooling: Literal["auto", "cls", "mean", "compare", "last", "attention"] = Field(
        "auto", description="auto: last for decoders, compare (of both texts) for pairs, else mean"
    )
    dropout_samples: int = Field(1, ge=1, description="number of dropout masks in a step")
    class_weights: Annotated[str, BeforeValidator(read_class_weights)] = Field(
        "none",
        description="weights in the loss: none, balanced (rare labels weigh more), or by label",
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share spread over all labels")
    positive_label: str = Field(
        "", description="label with a threshold, or to rank by; see README.md, Your data"
    )
    metric: Literal[
        "auto", "accuracy", "macro_f1", "micro_f1", "matthews", "f1", "map", "mrr", "f_beta",
        "roc_auc", "pr_auc", "log_loss", "brier", "top_k_accuracy", "map_at_k", "ndcg", "ndcg_at_k",
        "rmse", "mcrmse", "mae", "pearson", "spearman", "qwk",
    ] = Field("auto", description="the score that chooses the best epoch")  # fmt: skip
    floor: bool = Field(True, description="also train the classical model, in seconds")

    @field_validator("run_name")
    @classmethod
    def keep_name_of_floor(cls, name: str) -> str:
        """Refuse the name of the classical model's folder."""
        if name == FLOOR:
            raise ValueError(f"runs/{FLOOR} is the classical model's: choose another name")
        return name
