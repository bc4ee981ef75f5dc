"""The table [retrieval] of config.toml."""

from typing import ClassVar, Literal

from pydantic import Field

from core.base.settings import RecordSettings, SettingsTable


class Table(SettingsTable):
    """A bi-encoder that replaces the classifier of pairs."""

    # Pairs of a training file may all belong together: the batch has pairs with this label.
    negative_label: ClassVar[str] = "0"

    loss: Literal["none", "cosine", "cosent", "negatives"] = Field(
        "none", description="loss of a bi-encoder; none: the classifier of pairs"
    )
    scale: float = Field(20.0, gt=0, description="factor of the cosines in the loss")
    symmetric: bool = Field(False, description="the second text must find the first one too")
    dimension: int = Field(0, ge=0, description="size of a vector; 0: that of the encoder")


class Settings(RecordSettings):
    """The settings of text classification that this extra reads."""

    task: ClassVar[str] = "Text classification"

    pooling: str = Field("auto", description="mean or cls; auto: mean")
    retrieval: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse what a bi-encoder lacks, and a second extra that makes the gradient."""
    loss = settings.retrieval.loss
    if loss == "none":
        return None
    chosen = f"retrieval.loss = {loss}"
    if settings.task != Settings.task:
        return f"{chosen} is for pairs of texts, which this task does not have: set it to none"
    if settings.pooling == "compare":
        return (
            f"pooling = compare needs both texts at once, and {chosen} reads them separately: set "
            "auto"
        )
    if settings.pooling in ("last", "attention"):
        return (
            f"pooling = {settings.pooling} is for a classifier, and {chosen} takes means: set auto"
        )
    plain = {"dropout_samples": 1, "class_weights": "none", "label_smoothing": 0.0}
    for name, value in plain.items():
        if getattr(settings, name, value) != value:
            return f"{name} is for a classifier, and {chosen} has no logits: set {name} = {value}"
    if loss == "cosine":
        return None
    if settings.batch_size == 1:
        return f"{chosen} compares the pairs of a batch, and batch_size = 1 has one: raise it"
    others = getattr(settings, "regularization", None)
    if others and (
        others.adversary != "none"
        or any([others.gradient_penalty, others.r_drop, others.virtual_adversary])
    ):
        return f"{chosen} has its own gradient: leave the table regularization as it came"
    return None
