"""The weight of each label in the loss, as the setting `class_weights` gives it."""

import contextlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from task.records import Labels


def read_class_weights(given: Any) -> str:
    """Return a word, or weights by label as JSON: one value, so that runs can be compared.

    Raises:
        ValueError: it is neither.
    """
    with contextlib.suppress(ValueError):  # a word
        given = json.loads(given) if isinstance(given, str) else given
    if given in ("none", "balanced"):
        return given
    if not isinstance(given, dict) or not given:
        raise ValueError('choose "none", "balanced", or weights by label: { spam = 2.0 }')
    for label, weight in given.items():
        if type(weight) not in (int, float) or not 0 < weight < math.inf:
            raise ValueError(f"{label!r} weighs {weight!r}: give it a number above 0")
    return json.dumps(given, ensure_ascii=False, sort_keys=True)


def weights_by_label(class_weights: str) -> dict[str, float]:
    """Return the weights that `read_class_weights` returned, by label; empty for a word."""
    return json.loads(class_weights) if class_weights.startswith("{") else {}


def find_class_weights(labels: "Labels", class_weights: str) -> list | None:
    """Return the weights of the labels, as `SoftmaxLoss` or `SigmoidLoss` takes them; None: all 1.

    Args:
        labels: from `collect_targets`.
        class_weights: from `read_class_weights`.
    """
    if class_weights == "none":
        return None
    if class_weights == "balanced":
        return balanced_weights(labels)
    return scaled_weights(labels, weights_by_label(class_weights))


def balanced_weights(labels: "Labels") -> list:
    """Return weights that make all labels count the same: records / (labels * count).

    Where a record may have several labels, having and lacking each label count the same.
    """
    records = labels.records
    if not labels.several:
        return [records / (len(labels.names) * count) for count in labels.counts]
    return [
        [records / (2 * max(records - count, 1)), records / (2 * count)] for count in labels.counts
    ]


def scaled_weights(labels: "Labels", weights: dict[str, float]) -> list:
    """Return the given weights, scaled to a mean of 1 over the training file.

    Labels without a weight have 1 before that. Where a record may have several labels, a weight is
    that of the records with the label; those without it have 1.
    """
    own, counts = np.array([weights.get(n, 1.0) for n in labels.names]), np.array(labels.counts)
    without = (labels.records - counts) * labels.several
    mean = (own @ counts + without.sum()) / (counts + without).sum()
    pairs = np.stack([np.ones_like(own), own], axis=-1)
    return ((pairs if labels.several else own) / mean).tolist()
