"""The table [orbit] of config.toml."""

import importlib.util
from typing import Literal

from pydantic import Field

from core.base.settings import CoreSettings, SettingsTable

FREE = ("orbit.kept_checkpoints", "orbit.job", "orbit.steps_per_loop", "orbit.wait_minutes")


class Table(SettingsTable):
    """Orbit's loop instead of Keras's."""

    enabled: bool = Field(False, description="let Orbit's loop train")
    steps_per_loop: int = Field(20, ge=1, description="steps in one TensorFlow loop")
    kept_checkpoints: int = Field(3, ge=1, description="number of newest checkpoints to keep")
    job: Literal["train_and_evaluate", "train", "evaluate"] = Field(
        "train_and_evaluate", description="what this process does of the training"
    )
    wait_minutes: float = Field(
        60.0, ge=0, description="job = evaluate ends when none comes for so long; 0: never"
    )


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    orbit: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse what Orbit can't do, and a missing package."""
    orbit: Table = settings.orbit
    if orbit.enabled and importlib.util.find_spec("orbit") is None:
        return (
            "orbit.enabled needs Orbit: pip install --no-deps -r extras/orbit/requirements.txt, or "
            "set enabled = false"
        )
    if orbit.enabled and settings.strategy == "parameter_server":
        return (
            "strategy = parameter_server has a loop of its own: set enabled = false in the table "
            "orbit"
        )
    if orbit.job != "train_and_evaluate" and not orbit.enabled:
        return (
            f"orbit.job = {orbit.job} is one of two processes of an Orbit training: set "
            "orbit.enabled = true"
        )
    return None
