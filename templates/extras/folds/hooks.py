"""Keep train.py from training once where a cross-validation was asked for."""

from core.base.errors import InputError
from core.training import Training
from extras.folds.folds import Fold


def prepare(training: Training) -> None:
    """Refuse a single training where the table asks for several.

    Raises:
        InputError: names the script that cross-validates.
    """
    count = training.settings.folds.count
    if count and training.scorer and not isinstance(training.run, Fold):
        raise InputError(
            f"folds.count = {count} asks for {count} trainings, and train.py does one: run python "
            "extras/folds/cross_validate.py with the same flags, or set folds.count = 0."
        )
