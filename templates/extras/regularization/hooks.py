"""Another gradient, and batches without labels beside the others."""

from collections.abc import Callable, Sequence

import keras

from core.base.errors import InputError
from core.data.data_generator import DataGenerator
from core.train.training import Scores, TrainingModel
from extras.regularization.regularization import make_regularization
from extras.regularization.regularized_gradients import RegularizedGradients
from extras.regularization.settings import Settings
from extras.regularization.unlabelled import WithUnlabelled


def make_gradients(
    settings: Settings, encoder: keras.Model, scores: Sequence[Scores]
) -> Callable[[TrainingModel], RegularizedGradients] | None:
    """Return what makes a model's gradient; None: the plain one.

    Args:
        settings: the table `regularization`.
        encoder: whose embeddings are shifted.
        scores: what two passes are compared by.
    """
    regularization = make_regularization(settings, encoder, scores)
    if regularization is None:
        return None
    return lambda model: RegularizedGradients(model, regularization)


def extend_batches(
    settings: Settings,
    train_batches: DataGenerator,
    read_unlabelled: Callable[[str], DataGenerator] | None,
) -> DataGenerator | None:
    """Return batches with unlabelled examples beside them, where a file of these is named.

    Args:
        settings: `unlabelled_file` of the table `regularization`.
        train_batches: with labels.
        read_unlabelled: from the path of a file to batches of the same size; None: the task has
            none.

    Raises:
        InputError: a file is named, and the task can't learn from it.
    """
    path = settings.regularization.unlabelled_file
    if not path:
        return None
    if read_unlabelled is None:
        raise InputError(
            f"unlabelled_file = {path!r}, but this task compares scores that need labels: leave it "
            "empty, and virtual_adversary takes the training file."
        )
    return WithUnlabelled(train_batches, read_unlabelled(path))
