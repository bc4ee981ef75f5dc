"""Bi-encoders in the place of the classifier of pairs, where the table asks for one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from extras.retrieval.settings import Settings
from extras.retrieval.text_inputs import SIDES, text_inputs

if TYPE_CHECKING:  # processes of extras/cache need no TensorFlow
    import keras

    from core.step import Models
    from core.training import Training

# Share of the batches that may be without a pair to learn from, before somebody is told.
FEW_EMPTY = 0.05


def build_models(encoder: "keras.Model", labels: Any, settings: Settings) -> "Models | None":
    """Return the models of a bi-encoder; None: those of the task.

    Raises:
        InputError: the data has no pairs, or its labels no order.
    """
    table = getattr(settings, "retrieval", None)  # None: whoever builds has no use for extras
    if table is None or table.loss == "none":
        if 0 in labels.counts:
            raise InputError(
                f"every training pair has the label {labels.positive!r}: a classifier has nothing "
                "to learn there; set retrieval.loss = negatives, or add other pairs."
            )
        return None
    from extras.retrieval.bi_encoder import build_pair_models

    return build_pair_models(encoder, labels, settings)


def encode_texts(
    tokenizer: Tokenizer,
    texts: Sequence[tuple[str, ...]],
    inputs: Sequence[str],
    settings: Settings,
) -> dict[str, list[np.ndarray]] | None:
    """Return the inputs of a bi-encoder by name, one array for each pair; None: the model has none.

    Args:
        tokenizer: of the encoder.
        texts: both texts of each pair.
        inputs: the names of all inputs of the model; those of others are left out.
        settings: `max_length`.
    """
    if not any(name.startswith(SIDES) for name in inputs):
        return None
    found: dict[str, list[np.ndarray]] = {}
    for number, side in enumerate(SIDES):
        own = {name: name.removeprefix(side) for name in inputs if name.startswith(side)}
        one = [pair[number] for pair in texts]
        arrays = text_inputs(tokenizer, one, list(own.values()), settings.max_length)
        found |= {name: arrays[plain] for name, plain in own.items()}
    return found


def name_negatives(counts: dict[str, int], positive_label: str) -> dict[str, int] | None:
    """Return the label of what the training pairs have none of; None: they have several labels.

    Args:
        counts: label -> training pairs with it.
        positive_label: the setting: whoever names the only label says that others are not needed.
    """
    return {"0": 0} if list(counts) == [positive_label] and positive_label != "0" else None


def prepare(training: "Training") -> None:
    """Compare pairs with each other in the gradient, and check that batches can teach that.

    Raises:
        InputError: no batch of the first epoch has anything to learn from.
    """
    settings = training.settings
    if settings.retrieval.loss in ("none", "cosine"):
        return
    from extras.retrieval.pair_gradients import PairGradients

    [pairs] = training.models.compared
    training.make_gradients = lambda model: PairGradients(
        model, pairs.logits, settings.retrieval, settings.max_length
    )
    refuse_empty_batches(settings, training.batches)


def refuse_empty_batches(settings: Settings, train_batches: Any) -> None:
    """Look whether each batch of the first epoch has something to learn from.

    Raises:
        InputError: none has.
    """
    loss = settings.retrieval.loss
    from extras.retrieval.bi_encoder import order_labels

    places = np.array(order_labels(train_batches.labels, settings))
    planned = (examples for examples, _ in train_batches.plan(0))
    found = [places[train_batches.targets[own].argmax(axis=-1)] for own in planned]
    if loss == "negatives":
        empty = np.mean([own.max() < places.max() for own in found])
        what = f"no pair with the label {train_batches.labels.names[places.argmax()]!r}"
        mend = "raise batch_size, or leave out other pairs"
    else:
        empty = np.mean([own.max() == own.min() for own in found])
        what, mend = "pairs of one label alone", "raise batch_size"
    if empty == 1:
        raise InputError(
            f"every batch has {what}, which teaches retrieval.loss = {loss} nothing: {mend}."
        )
    if empty > FEW_EMPTY:
        print(f"warning: {empty:.0%} of the batches have {what} and teach nothing: {mend}.")
