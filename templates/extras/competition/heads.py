"""Layers that predict numbers: logits, losses `[batch]`, and numbers in their own units.

Grades are learned as ordered steps. Each target has one score for all of its steps, and a bias for
each step; the sigmoid of their sum is the probability that the grade is above the step. The number
is the mean of this distribution. Source: Cao, Mirjalili and Raschka 2020, CORAL,
https://arxiv.org/abs/1901.07884.
"""

import math
from typing import Any, TypeAlias

import keras
from keras import ops

Tensor: TypeAlias = keras.KerasTensor


def spread(levels: list[list[float]]) -> list[list[float]]:
    """Return `[targets, steps]`: 1 if a step belongs to a target."""
    steps = [len(own) - 1 for own in levels]
    return [
        [float(target == other) for other, count in enumerate(steps) for _ in range(count)]
        for target in range(len(steps))
    ]


@keras.saving.register_keras_serializable("competition")
class StepLogits(keras.layers.Layer):
    """The logits of all steps of all targets: one score per target, one bias per step.

    Args:
        levels: of each target, rising.
        shares_above: shares of the training records above each level except the last; they
            initialise the biases.
    """

    def __init__(self, levels: list, shares_above: list, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.levels, self.shares_above = levels, shares_above

    def build(self, input_shape: tuple) -> None:
        biases = [math.log(share / (1 - share)) for own in self.shares_above for share in own]
        self.kernel = self.add_weight(
            (input_shape[-1], len(self.levels)), "glorot_uniform", name="kernel"
        )
        self.bias = self.add_weight(
            (len(biases),), lambda *_, **__: ops.convert_to_tensor(biases, "float32"), name="bias"
        )

    def call(self, pooled: Tensor) -> Tensor:
        """Return `[batch, steps]` of `[batch, features]`."""
        scores = ops.matmul(pooled, self.kernel)
        return ops.matmul(scores, ops.convert_to_tensor(spread(self.levels))) + self.bias

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], sum(len(own) - 1 for own in self.levels))

    def get_config(self) -> dict:
        shares = self.shares_above
        return {**super().get_config(), "levels": self.levels, "shares_above": shares}


@keras.saving.register_keras_serializable("competition")
class NumberLoss(keras.layers.Layer):
    """The loss of each example, `[batch]`, in float32: the mean over its targets.

    Args:
        kind: `mse`, `huber`, `bce`, or `ordinal`, which is bce summed over the steps of a target.
        targets: numbers per example.
        delta: huber is linear beyond this distance.
    """

    def __init__(self, kind: str, targets: int, delta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind, self.targets, self.delta = kind, targets, delta

    def call(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return `[batch]` of logits and targets, both `[batch, width]`."""
        logits = ops.cast(logits, "float32")
        if self.kind in ("bce", "ordinal"):
            # -y log sigmoid(s) - (1 - y) log sigmoid(-s)
            parts = targets * ops.softplus(-logits) + (1 - targets) * ops.softplus(logits)
        else:
            parts = ops.square(logits - targets)
            if self.kind == "huber":
                distance = ops.abs(logits - targets)
                linear = self.delta * (2 * distance - self.delta)
                parts = ops.where(distance > self.delta, linear, parts) / 2
        return ops.sum(parts, axis=-1) / self.targets

    def compute_output_spec(self, logits: Tensor, targets: Tensor) -> Tensor:
        return keras.KerasTensor((logits.shape[0],), dtype="float32")

    def get_config(self) -> dict:
        own = {"kind": self.kind, "targets": self.targets, "delta": self.delta}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("competition")
class Numbers(keras.layers.Layer):
    """The numbers `[batch, targets]` of logits, in the units of the training file.

    Args:
        scaling: from `collect_numbers`.
    """

    def __init__(self, scaling: dict, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scaling = scaling

    def call(self, logits: Tensor) -> Tensor:
        logits = ops.cast(logits, "float32")
        scaling = self.scaling
        if scaling["loss"] == "bce":
            return ops.sigmoid(logits)
        if scaling["loss"] == "ordinal":
            levels = scaling["levels"]
            gaps = [high - low for own in levels for low, high in zip(own, own[1:], strict=False)]
            above = ops.sigmoid(logits) * ops.convert_to_tensor(gaps, "float32")
            total = ops.matmul(above, ops.transpose(ops.convert_to_tensor(spread(levels))))
            return total + ops.convert_to_tensor(scaling["lowest"], "float32")
        deviations, means = (
            ops.convert_to_tensor(scaling[name], "float32") for name in ("deviations", "means")
        )
        return logits * deviations + means

    def compute_output_shape(self, logits_shape: tuple) -> tuple:
        return (logits_shape[0], len(self.scaling["means"]))

    def get_config(self) -> dict:
        return {**super().get_config(), "scaling": self.scaling}


def number_layers(
    labels: Any, name: str
) -> tuple[keras.layers.Layer, keras.layers.Layer, keras.layers.Layer, str]:
    """Return the layers of the logits, the numbers and the loss, and the kind of `Logits`.

    The kind is empty where the logits are not of probabilities.

    Args:
        labels: with the `scaling` of `collect_numbers`.
        name: of the loss.
    """
    scaling = labels.scaling
    kind, targets = scaling["loss"], len(scaling["means"])
    score: keras.layers.Layer = keras.layers.Dense(targets, dtype="float32", name="logits")
    if kind == "ordinal":
        levels, shares = scaling["levels"], scaling["shares_above"]
        score = StepLogits(levels, shares, dtype="float32", name="logits")
    loss = NumberLoss(kind, targets, scaling["huber_delta"], dtype="float32", name=name)
    numbers = Numbers(scaling, dtype="float32", name="numbers")
    return score, numbers, loss, "sigmoid" if kind in ("bce", "ordinal") else ""
