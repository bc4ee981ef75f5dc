"""Which outputs of a model two passes through it can be compared by."""

from dataclasses import dataclass

import keras


@dataclass(frozen=True)
class Logits:
    """Logits of a model, for methods that compare two passes through it, such as R-Drop.

    Attributes:
        logits: a tensor of the model `[batch, ...]`.
        kind: `sigmoid`: each is a question of its own; `softmax` over the last axis;
            `softmax_of_all` over all axes of an example.
        labels: name of the input `[batch, positions]` that is below 0 where nothing is predicted.
    """

    logits: keras.KerasTensor
    kind: str
    labels: str = ""
