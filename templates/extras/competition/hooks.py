"""What this extra changes in a training: the order of two texts that are compared."""

from core.training import Training


def prepare(training: Training) -> None:
    """Turn a half of the records round in each epoch, where the table asks for it.

    Raises:
        InputError: the records have one text, or no label that the table names.
    """
    if training.settings.competition.swap_training:
        from extras.competition.swapping import swap_in_training

        swap_in_training(training)
