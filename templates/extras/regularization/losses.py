"""Other losses of the same models: focal loss, and smoothed labels of spans and tags.

A built loss layer gets another class, so its inputs, its name and the model around it stay.
"""

from typing import TypeAlias

import keras
from keras import ops

from core.base.errors import InputError
from core.base.replace_class import replace_class
from core.exact.dropout import named_layers
from core.step import Models
from extras.regularization.changed_loss import ChangedLoss, focal
from extras.regularization.pair_loss import PairLoss
from extras.regularization.settings import Table
from extras.regularization.tag_loss import TagLoss

Tensor: TypeAlias = keras.KerasTensor


class FocalSoftmaxLoss(ChangedLoss):
    """Focal loss of one label out of several; each label counts with its share of the target."""

    smoothing: float
    label_weights: list | None

    def call(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example; `targets` `[batch, labels]` add up to 1."""
        costs = -ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        shares = targets * (1 - self.smoothing) + self.smoothing / targets.shape[-1]
        loss = ops.sum(shares * focal(costs, self.gamma), axis=-1)
        if self.label_weights is not None:
            loss *= ops.sum(targets * ops.convert_to_tensor(self.label_weights), axis=-1)
        return loss


class FocalSigmoidLoss(ChangedLoss):
    """Focal loss of any number of labels; both outcomes count with their share of the target."""

    smoothing: float
    label_weights: list | None

    def call(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example; `targets` `[batch, labels]` are from 0 to 1."""
        logits = ops.cast(logits, "float32")
        shares = targets * (1 - self.smoothing) + self.smoothing / 2
        loss = shares * focal(ops.softplus(-logits), self.gamma)
        loss += (1 - shares) * focal(ops.softplus(logits), self.gamma)
        if self.label_weights is not None:
            weights = ops.convert_to_tensor(self.label_weights)
            loss *= targets * weights[:, 1] + (1 - targets) * weights[:, 0]
        return ops.sum(loss, axis=-1)


class FocalAnswerLoss(ChangedLoss):
    """Focal loss of the answers of a window: p is the probability of all gold pairs together."""

    def call(self, scores: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of each window, as the class before does for its arguments."""
        return focal(super().call(scores, answers), self.gamma)


# What a loss layer becomes, by the name of its class: tasks have most of these classes.
CHANGED: dict[str, type[ChangedLoss]] = {
    "SoftmaxLoss": FocalSoftmaxLoss,
    "SigmoidLoss": FocalSigmoidLoss,
    "MarginalSpanLoss": FocalAnswerLoss,
    "SparseMultilabelLoss": PairLoss,
    "ManyHeadsLoss": PairLoss,
    "CrfLoss": TagLoss,
}


def change_losses(models: Models, table: Table) -> None:
    """Let the loss layers of the training model compute what the table asks for.

    Raises:
        InputError: one of them has no such form.
    """
    if not table.focal_gamma and not table.span_smoothing:
        return
    losses = [layer for _, layer in named_layers(models.training) if is_loss(layer)]
    for layer in dict.fromkeys(losses):
        changed = CHANGED.get(type(layer).__name__)
        if changed is None or table.span_smoothing and not changed.smooths:
            asked = "span_smoothing" if table.span_smoothing else "focal_gamma"
            raise InputError(
                f"regularization.{asked} does not fit this model: its loss is "
                f"{type(layer).__name__}; set {asked} = 0."
            )
        # Of the same name, which messages show.
        replace_class(layer, type(type(layer).__name__, (changed, type(layer)), {}))
        layer.gamma, layer.span_smoothing = table.focal_gamma, table.span_smoothing
        layer.distance = table.smoothing_distance


def is_loss(layer: keras.layers.Layer) -> bool:
    """Return whether a layer is one of losses, by the name of its class."""
    return type(layer).__name__.endswith("Loss")
