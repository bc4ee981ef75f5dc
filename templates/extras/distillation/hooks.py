"""Put more into a training: the records of other files, the weights of another run."""

import functools

from core.training import Training


def prepare(training: Training) -> None:
    """Add the files of the table to the batches, and start from the weights of its run.

    Raises:
        InputError: a file or a run does not fit this training.
    """
    table = training.settings.distillation
    if table.files:
        from extras.distillation.added_files import with_added_files

        training.batches = with_added_files(training)
    if table.init_from:
        from extras.distillation.first_weights import find_source, start_from

        find_source(table.init_from)  # before anything is written
        # Which labels the run has to learn is known when its folder is there.
        training.on_begin.append(functools.partial(start_from, training, table.init_from))
