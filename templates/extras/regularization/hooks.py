"""Other losses and gradients, unlabelled batches, and training records that are scored with dev."""

from core.training import Training
from extras.regularization.head_samples import sample_head
from extras.regularization.losses import change_losses
from extras.regularization.regularization import make_regularization
from extras.regularization.regularized_gradients import RegularizedGradients
from extras.regularization.train_scores import TrainScorer
from extras.regularization.unlabelled import WithUnlabelled, read_unlabelled


def prepare(training: Training) -> None:
    """Change the losses, the gradient, the batches and the scorer, as the table asks.

    Raises:
        InputError: the losses have no such form, the task can't learn from unlabelled examples,
            or the encoder has no embedding that is trained.
    """
    settings, models, table = training.settings, training.models, training.settings.regularization
    change_losses(models, table)
    if table.dropout_samples:
        sample_head(models, table.dropout_samples, settings.dropout, settings.seed)
    if table.curve_records and training.scorer:
        training.scorer = TrainScorer(training, table.curve_records, settings.seed)
    if table.unlabelled_file:
        unlabelled = read_unlabelled(training.batches, table.unlabelled_file)
        training.batches = WithUnlabelled(training.batches, unlabelled)
    regularization = make_regularization(settings, models.encoder, models.compared)
    if regularization is not None:
        training.make_gradients = lambda model: RegularizedGradients(model, regularization)
