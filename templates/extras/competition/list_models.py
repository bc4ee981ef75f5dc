"""The models of lists: each record gets a score, and the scores of a group share a softmax.

With two candidates, of which the first is chosen, the loss is that of Bradley and Terry, -log
sigmoid(score of the chosen one - score of the rejected one). Sources: Cao et al. 2007, ListNet,
https://doi.org/10.1145/1273496.1273513; Ouyang et al. 2022, https://arxiv.org/abs/2203.02155.
"""

from typing import Any, TypeAlias

import keras
from keras import ops

from core.step import Logits, Models, TrainingModel
from task.model import read_texts

Tensor: TypeAlias = keras.KerasTensor
MASKED = -1e9


@keras.saving.register_keras_serializable("competition")
class Candidates(keras.layers.Layer):
    """The candidates of all groups one after the other: `[groups * candidates, length]`."""

    def call(self, inputs: Tensor) -> Tensor:
        """Flatten inputs `[groups, candidates, length]` of integers."""
        return ops.reshape(inputs, (-1, inputs.shape[-1] or ops.shape(inputs)[-1]))

    def compute_output_spec(self, inputs: Tensor) -> Tensor:
        return keras.KerasTensor((None, inputs.shape[-1]), dtype=inputs.dtype)


@keras.saving.register_keras_serializable("competition")
class GroupScores(keras.layers.Layer):
    """The scores of each group `[groups, candidates]`; those of filler are very low."""

    def call(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Arrange scores `[groups * candidates, 1]` as targets `[groups, candidates, 2]` are."""
        rows = ops.reshape(ops.cast(scores, "float32"), ops.shape(targets)[:2])
        return ops.where(targets[..., 1] > 0, rows, MASKED)

    def compute_output_spec(self, scores: Tensor, targets: Tensor) -> Tensor:
        return keras.KerasTensor(targets.shape[:2], dtype="float32")


@keras.saving.register_keras_serializable("competition")
class ListLoss(keras.layers.Layer):
    """The cross-entropy of each group `[groups]`, in float32.

    Example: a chosen candidate that scores 2 more than a rejected one.

        >>> import numpy as np
        >>> targets = np.array([[[1, 1], [0, 1]]], "float32")
        >>> loss = ListLoss()(np.array([[3, 1]], "float32"), targets)
        >>> bool(abs(float(loss[0]) - np.log(1 + np.exp(-2))) < 1e-6)
        True
    """

    def call(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compare scores `[groups, candidates]` with targets `[groups, candidates, 2]`."""
        return -ops.sum(targets[..., 0] * ops.log_softmax(scores, axis=-1), axis=-1)

    def compute_output_spec(self, scores: Tensor, targets: Tensor) -> Tensor:
        return keras.KerasTensor((scores.shape[0],), dtype="float32")


def build_list_models(encoder: keras.Model, labels: Any, settings: Any) -> Models:
    """Return the training model of groups, and the inference model of single records.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        labels: from `collect_targets`.
        settings: `pooling`, `dropout`, `dropout_samples`.
    """
    inputs, pooled = read_texts(encoder, labels, settings)
    dropout = keras.layers.Dropout(settings.dropout, name="pooled_dropout")
    score = keras.layers.Dense(1, dtype="float32", name="logits")
    samples = [score(dropout(pooled)) for _ in range(settings.dropout_samples)]
    answer = keras.layers.Activation("linear", dtype="float32", name="numbers")
    inference = keras.Model(inputs, {answer.name: answer(samples[0])}, name="inference")
    scorer = keras.Model(inputs, samples, name="scorer")

    grouped = {n: keras.Input((None, None), dtype="int32", name=n) for n in inputs}
    flat = {name: Candidates(name=f"flat_{name}")(tensor) for name, tensor in grouped.items()}
    targets = keras.Input((None, 2), name="targets")
    arrange, loss = GroupScores(dtype="float32"), ListLoss(dtype="float32", name="sample_loss")
    found = scorer(flat)
    rows = [arrange(own, targets) for own in (found if isinstance(found, list) else [found])]
    losses = [loss(own, targets) for own in rows]
    mean = keras.layers.Average(dtype="float32")(losses)
    training = TrainingModel({**grouped, "targets": targets}, {"label_loss": mean}, name="training")
    return Models(training, inference, encoder, (Logits(rows[0], "softmax"),))
