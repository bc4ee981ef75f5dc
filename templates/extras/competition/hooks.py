"""What this extra changes in a training: the order of two texts, and records learned together."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # processes of extras/cache need no TensorFlow
    import keras

    from core.step import Models
    from core.training import Training


def build_models(encoder: "keras.Model", labels: Any, settings: Any) -> "Models | None":
    """Return the models that score the records of a group together; None: those of the task."""
    if not getattr(labels, "are_lists", False):
        return None
    from extras.competition.list_models import build_list_models

    return build_list_models(encoder, labels, settings)


def prepare(training: "Training") -> None:
    """Swap the texts of half of the records in each epoch, or join groups, if the table says so.

    Raises:
        InputError: the records have one text, or no label that the table names.
    """
    if training.settings.competition.is_listwise:
        from extras.competition.list_batches import join_groups

        training.batches = join_groups(training.batches)
    if training.settings.competition.swap_training:
        from extras.competition.swapping import swap_in_training

        swap_in_training(training)
