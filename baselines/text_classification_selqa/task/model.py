"""An encoder, a pooling of its hidden states to one vector, and a dense layer of logits.

The vector of a pair that is compared holds both texts' means u, v as in Sentence-BERT,
[u; v; |u - v|; u v], beside the mean of all tokens: each token has read both texts already, so the
two means are those of a cross-encoder. Source: Reimers and Gurevych 2019,
https://arxiv.org/abs/1908.10084.

A training can drop out parts of the vector in several ways at once, and learn from the mean of the
losses: the encoder, which is nearly all of the time, runs once. Source: Inoue 2019,
https://arxiv.org/abs/1905.09788.
"""

import keras
from keras import ops

from common.regularization import Scores
from common.training import TrainingModel
from task.data import Labels
from task.settings import Settings


@keras.saving.register_keras_serializable("task")
class MaskedMean(keras.layers.Layer):
    """Mean of the hidden states of the tokens that a mask has; 0 where it has none.

    Args:
        number: the value of the mask that is meant.
    """

    def __init__(self, number: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.number = number

    def call(self, hidden, mask):
        """Average `hidden` `[batch, length, width]` over `mask` `[batch, length]` of integers."""
        chosen = ops.cast(ops.equal(mask, self.number), hidden.dtype)[..., None]
        return ops.sum(hidden * chosen, axis=1) / ops.maximum(ops.sum(chosen, axis=1), 1)

    def compute_output_shape(self, hidden_shape, mask_shape=None):
        return (hidden_shape[0], hidden_shape[2])

    def get_config(self):
        return {**super().get_config(), "number": self.number}


@keras.saving.register_keras_serializable("task")
class SoftmaxLoss(keras.layers.Layer):
    """Cross-entropy of one label out of several; its output is the loss `[batch]`.

    Args:
        weights: of the examples of each label; None: 1.
        smoothing: the target is 1 - smoothing on the label, and smoothing / labels on every one.
    """

    def __init__(self, weights: list[float] | None = None, smoothing: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.weights_of_labels = None if weights is None else [float(value) for value in weights]
        self.smoothing = smoothing

    def call(self, logits, targets):
        """Return the loss of each example, whose `targets` `[batch, labels]` hold a single 1."""
        logits = ops.cast(logits, "float32")
        soft = targets * (1 - self.smoothing) + self.smoothing / targets.shape[-1]
        loss = -ops.sum(soft * ops.log_softmax(logits, axis=-1), axis=-1)
        if self.weights_of_labels is not None:
            loss *= ops.sum(targets * ops.convert_to_tensor(self.weights_of_labels), axis=-1)
        return loss

    def compute_output_shape(self, logits_shape, targets_shape=None):
        return (logits_shape[0],)

    def compute_output_spec(self, logits, targets):
        return keras.KerasTensor((logits.shape[0],), dtype="float32")

    def get_config(self):
        return {
            **super().get_config(),
            "weights": self.weights_of_labels,
            "smoothing": self.smoothing,
        }


@keras.saving.register_keras_serializable("task")
class SigmoidLoss(keras.layers.Layer):
    """Cross-entropy of any number of labels, each for itself; its output is their sum `[batch]`.

    Args:
        weights: `[labels, 2]`, of the examples without and with each label; None: 1.
        smoothing: the targets 0 and 1 become smoothing / 2 and 1 - smoothing / 2.
    """

    def __init__(self, weights: list[list[float]] | None = None, smoothing: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.weights_of_labels = (
            None if weights is None else [[float(value) for value in pair] for pair in weights]
        )
        self.smoothing = smoothing

    def call(self, logits, targets):
        """Return the loss of each example, whose `targets` `[batch, labels]` are 0 and 1."""
        logits = ops.cast(logits, "float32")
        soft = targets * (1 - self.smoothing) + self.smoothing / 2
        # -y log sigmoid(s) - (1 - y) log sigmoid(-s)
        loss = soft * ops.softplus(-logits) + (1 - soft) * ops.softplus(logits)
        if self.weights_of_labels is not None:
            weights = ops.convert_to_tensor(self.weights_of_labels)
            loss *= targets * weights[:, 1] + (1 - targets) * weights[:, 0]
        return ops.sum(loss, axis=-1)

    def compute_output_shape(self, logits_shape, targets_shape=None):
        return (logits_shape[0],)

    def compute_output_spec(self, logits, targets):
        return keras.KerasTensor((logits.shape[0],), dtype="float32")

    def get_config(self):
        return {
            **super().get_config(),
            "weights": self.weights_of_labels,
            "smoothing": self.smoothing,
        }


def build_models(
    encoder: keras.Model, labels: Labels, settings: Settings
) -> tuple[TrainingModel, keras.Model]:
    """Return the training model (output: loss) and the inference model (output: probabilities).

    Both share every layer: training the first trains the second.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        labels: from `collect_labels`.
        settings: `pooling`, `dropout`, `dropout_samples`, `class_weights`, `label_smoothing`.
    """
    inputs = {
        tensor.name: keras.Input((None,), dtype="int32", name=tensor.name)
        for tensor in encoder.inputs
    }
    hidden = encoder(inputs)
    hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden
    pooling = settings.pooling
    if pooling == "auto":
        pooling = "compare" if labels.pairs else "mean"
    if pooling == "compare":
        inputs["text_numbers"] = keras.Input((None,), dtype="int32", name="text_numbers")
    pooled = pool(hidden, inputs, pooling)
    dropout = keras.layers.Dropout(settings.dropout, name="pooled_dropout")
    # In float32: under mixed precision small differences of large logits would be lost.
    score = keras.layers.Dense(len(labels.names), dtype="float32", name="logits")
    # Each call draws another mask; without dropout, in the inference model, all are the same.
    samples = [score(dropout(pooled)) for _ in range(settings.dropout_samples)]
    activation = "sigmoid" if labels.several else "softmax"
    probabilities = keras.layers.Activation(activation, dtype="float32", name="probabilities")
    inference = keras.Model(inputs, {"probabilities": probabilities(samples[0])}, name="inference")

    targets = keras.Input((len(labels.names),), name="targets")
    loss = (SigmoidLoss if labels.several else SoftmaxLoss)(
        balanced_weights(labels) if settings.class_weights == "balanced" else None,
        settings.label_smoothing,
        name="label_loss" if len(samples) == 1 else "sample_loss",
    )
    losses = [loss(logits, targets) for logits in samples]
    mean = keras.layers.Average(name="label_loss")(losses) if len(losses) > 1 else losses[0]
    training = TrainingModel({**inputs, "targets": targets}, {"label_loss": mean}, name="training")
    return training, inference


def pool(hidden, inputs: dict, pooling: str):
    """Return one vector `[batch, features]` of the hidden states `[batch, length, width]`."""
    if pooling == "cls":
        return hidden[:, 0]
    mean = MaskedMean(name="mean")(hidden, inputs["padding_mask"])
    if pooling == "mean":
        return mean
    u = MaskedMean(1, name="mean_of_text_a")(hidden, inputs["text_numbers"])
    v = MaskedMean(2, name="mean_of_text_b")(hidden, inputs["text_numbers"])
    return ops.concatenate([mean, u, v, ops.abs(u - v), u * v], axis=-1)


def balanced_weights(labels: Labels) -> list:
    """Return the weights with which every label counts the same: records / (labels count).

    Where a record may have several labels each label is a question of its own with two answers,
    which are balanced.
    """
    records = labels.records
    if not labels.several:
        return [records / (len(labels.names) * count) for count in labels.counts]
    return [
        [records / (2 * max(records - count, 1)), records / (2 * count)] for count in labels.counts
    ]


def compared_scores(inference: keras.Model, labels: Labels) -> list[Scores]:
    """Return what two passes with other dropout are compared by."""
    kind = "sigmoid" if labels.several else "softmax"
    return [Scores(inference.get_layer("probabilities").input, kind)]
