"""The table [optimizers] of config.toml."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from core.base.settings import CoreSettings, SettingsTable


def read_points(text: str) -> list[tuple[float, float]]:
    """Return the points of `0:1, 0.5:0.1, 1:0`.

    Raises:
        ValueError: they are invalid.
    """
    try:
        points = [
            (float(place), float(height))
            for place, height in (part.split(":") for part in text.split(",") if part.strip())
        ]
    except ValueError:
        raise ValueError("this is not a list of points such as 0:1, 0.5:0.1, 1:0") from None
    places, heights = [place for place, _ in points], [height for _, height in points]
    if places != sorted(set(places)) or not all(0 <= place <= 1 for place in places):
        raise ValueError("the first numbers must rise, from 0 to 1 at the most")
    if not all(height >= 0 for height in heights):
        raise ValueError("the second numbers must not be below 0")
    return points


def check_points(text: str) -> str:
    """Refuse anything but a list of points."""
    read_points(text)
    return text


class Table(SettingsTable):
    """The optimizer and its learning rates."""

    kind: Literal["adamw", "lamb", "adafactor", "lion", "muon"] = Field(
        "adamw", description="what makes a step of a gradient"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="rate of an encoder layer, relative to the one above it"
    )
    schedule: Literal["linear", "cosine", "polynomial", "piecewise", "constant"] = Field(
        "linear", description="the rate after the warm-up"
    )
    schedule_power: float = Field(2.0, gt=0, description="of the polynomial schedule")
    schedule_points: Annotated[str, AfterValidator(check_points)] = Field(
        "", description="of the piecewise schedule: 0:1, 0.5:0.1, 1:0"
    )
    no_decay: str = Field("bias, gamma, beta", description="parts of names that never decay")
    no_adaptation: str = Field("bias, gamma, beta", description="parts of names LAMB doesn't adapt")
    lazy_embeddings: bool = Field(False, description="rows wait until a batch has their token")
    lookahead: int = Field(0, ge=0, description="move halfway back every so many steps; 0: off")
    frozen_layers: int = Field(0, ge=0, description="0: train everything; 1: freeze the embeddings")

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuse settings that don't fit together."""
        if (self.schedule == "piecewise") != bool(self.schedule_points.strip()):
            raise ValueError(
                f"schedule = {self.schedule} with schedule_points = {self.schedule_points!r}: set "
                "both, or neither"
            )
        if self.lazy_embeddings and self.kind in {"lamb", "adafactor"}:
            raise ValueError(
                f"lazy_embeddings with kind = {self.kind}, whose steps depend on the whole table: "
                "set lazy_embeddings = false, or kind = adamw"
            )
        return self


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    optimizers: Table = Field(default_factory=Table)
