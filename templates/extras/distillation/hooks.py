"""Put more into a training: the records of other files, probabilities, weights of another run."""

import functools

from core.data.records import collect
from core.training import Training
from extras.distillation.soft_records import first_soft
from extras.distillation.teachers import goes_on, keep_teachers


def prepare(training: Training) -> None:
    """Add the files of the table, learn probabilities of spans, start from the weights of a run.

    Raises:
        InputError: a file or a run does not fit this training.
    """
    table = training.settings.distillation
    teachers: list[dict] = []
    if table.files:
        from extras.distillation.added_files import with_added_files

        training.batches = with_added_files(training, teachers)
    examples = getattr(training.batches, "examples", ())
    if (place := collect(first_soft, examples)) is not None:
        from extras.distillation.soft_spans import learn_probabilities

        learn_probabilities(training, examples[place])
    if table.init_from:
        from extras.distillation.first_weights import find_source, start_from

        if not goes_on(training):
            source = find_source(training, table.init_from, teachers)  # before anything is written
            # Which labels the run has to learn is known when its folder is there.
            training.on_begin.append(functools.partial(start_from, training, source))
    training.on_begin.append(functools.partial(keep_teachers, training, teachers))
