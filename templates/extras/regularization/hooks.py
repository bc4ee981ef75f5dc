"""Another gradient, batches without labels beside the others, and what training records score."""

import functools
from collections.abc import Callable, Sequence

import keras

from core.base.errors import InputError
from core.data.data_generator import DataGenerator
from core.train.scoring import Evaluation
from core.train.training import Scores, TrainingModel
from extras.regularization.regularization import make_regularization
from extras.regularization.regularized_gradients import RegularizedGradients
from extras.regularization.settings import Settings
from extras.regularization.train_scores import add_train_scores
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


def score_beside(
    settings: Settings, train_batches: DataGenerator, score_dev: "functools.partial[Evaluation]"
) -> Callable[[], Evaluation] | None:
    """Return what scores training records beside dev; None: dev is scored alone.

    Args:
        settings: `seed`, and `curve_records` of the table `regularization`.
        train_batches: of the examples that are learned from.
        score_dev: a function of batches, and the batches of dev.
    """
    most = settings.regularization.curve_records
    return add_train_scores(most, settings.seed, train_batches, score_dev) if most else None
