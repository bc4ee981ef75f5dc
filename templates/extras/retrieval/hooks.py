"""Bi-encoders replace the classifier of pairs, where the table asks for one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from core.base.errors import InputError
from extras.retrieval.settings import Settings
from extras.retrieval.text_inputs import names_sides

if TYPE_CHECKING:  # processes of extras/cache need no TensorFlow
    import keras

    from core.batches import DataGenerator
    from core.step import Models
    from core.training import Training


def open_batches(
    kind: "type[DataGenerator]", examples: Sequence, arguments: tuple
) -> "DataGenerator | None":
    """Return batches whose two texts are inputs of their own; None: the model has other inputs."""
    if kind.__name__ != "ExampleGenerator" or not names_sides(arguments[2]):
        return None
    from extras.retrieval.pair_batches import PairGenerator

    return PairGenerator.of(examples, *arguments)


def build_models(encoder: "keras.Model", labels: Any, settings: Settings) -> "Models | None":
    """Return the models of a bi-encoder; None: those of the task.

    Raises:
        InputError: the data has no pairs, or its labels no order.
    """
    table = getattr(settings, "retrieval", None)  # None: settings without the tables of extras
    if table is None or table.loss == "none":
        if 0 in labels.counts:
            raise InputError(
                f"every training pair has the label {labels.positive!r}: a classifier has nothing "
                "to learn there; set retrieval.loss = negatives, or add other pairs."
            )
        return None
    from extras.retrieval.bi_encoder import build_pair_models

    return build_pair_models(encoder, labels, settings)


def prepare(training: "Training") -> None:
    """Compare pairs with each other in the gradient, and check that batches can teach that.

    Raises:
        InputError: no batch of the first epoch has anything to learn from.
    """
    settings = training.settings
    if settings.retrieval.loss in ("none", "cosine"):
        return
    from extras.retrieval.bi_encoder import refuse_empty_batches
    from extras.retrieval.pair_gradients import PairGradients

    [pairs] = training.models.compared
    training.make_gradients = lambda model: PairGradients(
        model, pairs.logits, settings.retrieval, settings.max_length
    )
    if training.scorer:  # else nothing is trained: check.py only looks at the step
        refuse_empty_batches(settings, training.batches)
