"""The table [folds] of config.toml."""

from pydantic import Field, field_validator

from core.base.settings import RecordSettings, SettingsTable


class Table(SettingsTable):
    """Cross-validation of the training file."""

    count: int = Field(0, ge=0, description="trainings of a cross-validation; 0: train once")

    @field_validator("count")
    @classmethod
    def check_count(cls, count: int) -> int:
        """Refuse a cross-validation without training examples."""
        if count == 1:
            raise ValueError("one fold leaves nothing to train on: set it to 2 or more, or to 0")
        return count


class Settings(RecordSettings):
    """The settings of a project that has this extra."""

    folds: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse a cross-validation of a training on several machines, or of one of two processes."""
    if not settings.folds.count:
        return None
    if settings.strategy in ("parameter_server", "multi_worker"):
        return (
            f"strategy = {settings.strategy} trains one model on several machines, and folds are "
            "trained one after another: set folds.count = 0, or strategy = single"
        )
    job = getattr(getattr(settings, "orbit", None), "job", "train_and_evaluate")
    if job != "train_and_evaluate":
        return (
            f"orbit.job = {job} is one of two processes of a single training: set "
            "folds.count = 0, or orbit.job = train_and_evaluate"
        )
    return None


def complete(settings: Settings) -> None:
    """Use the training file as dev, because its records are scored."""
    if settings.folds.count:
        settings.dev_file = settings.train_file
