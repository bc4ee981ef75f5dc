"""The perplexity of targets: how surprising a model, or several together, finds each token."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from core.prediction.predictor import Predictor


@keras.saving.register_keras_serializable("generation")
class TargetLogs(keras.layers.Layer):
    """The log-probability of each target token `[batch, target]`, 0 where there is none."""

    def call(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Look `labels` `[batch, target]`, negative for no token, up in `logits`."""
        logs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        tokens = ops.maximum(labels, 0)[..., None]
        return ops.where(labels < 0, 0.0, ops.take_along_axis(logs, tokens, axis=-1)[..., 0])

    def compute_output_spec(self, logits: Any, labels: Any) -> keras.KerasTensor:
        return keras.KerasTensor(labels.shape, dtype="float32")


class PerplexityScorer:
    """Computes exp of the mean of -log(probability) over target tokens, ends included.

    Args:
        models: inference models; the probability is the mean of theirs.
        strategy: where they were built.
    """

    def __init__(self, models: Sequence[keras.Model], strategy: tf.distribute.Strategy) -> None:
        labels = keras.Input((None,), dtype="int32", name="target_labels")
        read = TargetLogs(dtype="float32", name="target_logs")
        own = [
            keras.Model(
                {**{tensor.name: tensor for tensor in model.inputs}, "target_labels": labels},
                {"logs": read(model.output["logits"], labels)},
            )
            for model in models
        ]
        self.predictor = Predictor(own, strategy, mean_probabilities)
        self.predictor.exact = False  # its batches have the padded lengths of training

    def score(self, pairs: Any) -> float:
        """Return the perplexity of a `PairGenerator`; infinite if it is beyond all numbers."""

        def add_up(_: np.ndarray, outputs: dict[str, np.ndarray]) -> list[float]:
            return outputs["logs"].sum(axis=1, dtype=np.float64).tolist()

        total = math.fsum(log for _, log in self.predictor.decode(pairs, add_up))
        with np.errstate(over="ignore"):
            return float(np.exp(-total / sum(map(len, pairs.targets))))


def mean_probabilities(outputs: Sequence[dict]) -> dict:
    """Return the logarithm of the mean of the probabilities of several models."""
    logs = ops.stack([own["logs"] for own in outputs])
    return {"logs": ops.logsumexp(logs, axis=0) - math.log(len(outputs))}
