"""An encoder, a pooling of its hidden states to one vector, and a dense layer of logits.

With pooling "compare" the vector of a pair is the mean of all tokens, followed by the means u, v of
both texts, |u - v| and u v. Unlike in the paper, the encoder has read both texts together. Source:
Conneau et al. 2017, https://arxiv.org/abs/1705.02364.

With `dropout_samples` a step applies several dropout masks to the vector and learns from the mean
of their losses. The encoder, which takes nearly all of the time, runs only once. Source: Inoue
2019, https://arxiv.org/abs/1905.09788.
"""

from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from core.base.extras import ask, need
from core.encoders.encoder import encoder_inputs, hidden_states
from core.step import Logits, Models, TrainingModel
from library.class_weights import find_class_weights
from task.records import Labels
from task.settings import Settings

Tensor: TypeAlias = keras.KerasTensor


@keras.saving.register_keras_serializable("task")
class MaskedMean(keras.layers.Layer):
    """Mean of the hidden states of the tokens that a mask selects; 0 where it selects none.

    Args:
        number: the value that selects a token.
    """

    def __init__(self, number: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def call(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Average `hidden` `[batch, length, width]` where `mask` `[batch, length]` selects it."""
        chosen = ops.cast(ops.equal(mask, self.number), hidden.dtype)[..., None]
        return ops.sum(hidden * chosen, axis=1) / ops.maximum(ops.sum(chosen, axis=1), 1)

    def get_config(self) -> dict:
        return {**super().get_config(), "number": self.number}


class LabelLoss(keras.layers.Layer):
    """The base of `SoftmaxLoss` and `SigmoidLoss`; the output is the loss `[batch]`, in float32.

    Args:
        weights: of the labels, see the subclasses; None: 1 for all.
        smoothing: share of the target that is spread evenly.
    """

    def __init__(self, weights: list | None = None, smoothing: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.label_weights = weights  # `weights` is a property of Keras layers
        self.smoothing = smoothing

    def compute_output_spec(self, logits: Tensor, targets: Tensor) -> Tensor:
        return keras.KerasTensor((logits.shape[0],), dtype="float32")

    def get_config(self) -> dict:
        weights = self.label_weights
        return {**super().get_config(), "weights": weights, "smoothing": self.smoothing}


@keras.saving.register_keras_serializable("task")
class SoftmaxLoss(LabelLoss):
    """Cross-entropy of one label out of several.

    The target is smoothing / number of labels for each label, plus 1 - smoothing for the right one.
    `weights` holds one number for each label.
    """

    def call(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example, whose `targets` `[batch, labels]` sum to 1."""
        logits = ops.cast(logits, "float32")
        soft = targets * (1 - self.smoothing) + self.smoothing / targets.shape[-1]
        loss = -ops.sum(soft * ops.log_softmax(logits, axis=-1), axis=-1)
        if self.label_weights is not None:
            loss *= ops.sum(targets * ops.convert_to_tensor(self.label_weights), axis=-1)
        return loss


@keras.saving.register_keras_serializable("task")
class SigmoidLoss(LabelLoss):
    """Sum of the binary cross-entropies of any number of labels.

    The targets 0 and 1 become smoothing / 2 and 1 - smoothing / 2. `weights` `[labels, 2]` are the
    weight of a label where it is absent, and its weight where it is present.
    """

    def call(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example, with `targets` `[batch, labels]` from 0 to 1."""
        logits = ops.cast(logits, "float32")
        soft = targets * (1 - self.smoothing) + self.smoothing / 2
        # -y log sigmoid(s) - (1 - y) log sigmoid(-s), with y = soft and s = logits
        loss = soft * ops.softplus(-logits) + (1 - soft) * ops.softplus(logits)
        if self.label_weights is not None:
            weights = ops.convert_to_tensor(self.label_weights)
            loss *= targets * weights[:, 1] + (1 - targets) * weights[:, 0]
        return ops.sum(loss, axis=-1)


def build_models(encoder: keras.Model, labels: Labels, settings: Settings) -> Models:
    """Return the training model (output: loss) and the inference model (probabilities or numbers).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        labels: from `collect_targets`.
        settings: `pooling`, `dropout`, `dropout_samples`, `class_weights`, `label_smoothing`.
    """
    # None, unless an extra builds other models, as extras/competition does for ranked lists.
    if models := ask("build_models", encoder, labels, settings):
        return models
    inputs, pooled = read_texts(encoder, labels, settings)
    dropout = keras.layers.Dropout(settings.dropout, name="pooled_dropout")
    head = make_head(labels, settings)
    to_logits = head.logits
    if getattr(encoder, "answers", None):  # extras/writers: a label's logit is that of a word
        to_logits = need("writers", "answers").answer_layer(encoder, labels)
    # A sample is the logits `[batch, labels]` with one dropout mask; prediction draws no masks.
    samples = [to_logits(dropout(pooled)) for _ in range(settings.dropout_samples)]
    prediction = head.prediction(samples[0])
    inference = keras.Model(inputs, {head.prediction.name: prediction}, name="inference")

    targets = keras.Input((samples[0].shape[-1],), name="targets")
    losses = [head.loss(logits, targets) for logits in samples]
    loss = keras.layers.Average(dtype="float32")(losses)  # of one or more
    training = TrainingModel({**inputs, "targets": targets}, {"label_loss": loss}, name="training")
    # For R-Drop of extras/regularization, which can't compare numbers.
    compared = (Logits(samples[0], head.kind),) if head.kind else ()
    return Models(training, inference, encoder, compared)


def read_texts(
    encoder: keras.Model, labels: Labels, settings: Settings
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the inputs of a model, and the vector `[batch, features]` of each text or pair."""
    inputs = encoder_inputs(encoder)  # a `keras.Input` for each of the encoder's
    hidden = hidden_states(encoder, inputs, settings)
    pooling = settings.pooling
    if pooling == "auto":  # a decoder of extras/writers has the attribute `pooling`: "last"
        pooling = getattr(encoder, "pooling", "compare" if labels.pairs else "mean")
    if pooling == "compare":
        # Added after `hidden_states`: the encoder does not read it.
        inputs["text_numbers"] = keras.Input((None,), dtype="int32", name="text_numbers")
    return inputs, pool(hidden, inputs, pooling)


class Head(NamedTuple):
    """The layers on the pooled text; `kind` of logits: "softmax", "sigmoid", or "" for numbers."""

    logits: keras.layers.Layer
    prediction: keras.layers.Layer
    loss: keras.layers.Layer
    kind: str


def make_head(labels: Labels, settings: Settings) -> Head:
    """Return the layers of the logits, the prediction and the loss.

    Args:
        labels: from `collect_targets`.
        settings: `class_weights`, `label_smoothing`.
    """
    if labels.are_numbers:
        return Head(*need("competition", "heads").number_layers(labels, "sample_loss"))
    kind, loss_class = ("sigmoid", SigmoidLoss) if labels.several else ("softmax", SoftmaxLoss)
    weights = find_class_weights(labels, settings.class_weights)
    return Head(
        # In float32, like the losses: bfloat16 loses small differences of large logits.
        keras.layers.Dense(len(labels.names), dtype="float32", name="logits"),
        keras.layers.Activation(kind, dtype="float32", name="probabilities"),
        loss_class(weights, settings.label_smoothing, dtype="float32", name="sample_loss"),
        kind,
    )


def pool(hidden: Tensor, inputs: dict[str, Tensor], pooling: str) -> Tensor:
    """Return one vector `[batch, features]` of the hidden states `[batch, length, width]`."""
    if pooling == "cls":
        return hidden[:, 0]
    mask = inputs["padding_mask"]
    if pooling == "attention":
        return need("competition", "pooling").AttentionPooling(name="attention")(hidden, mask)
    if pooling == "last":
        # 1 at the last token before padding or the end, so the mean is that of one token.
        last_token = mask - ops.pad(mask[:, 1:], ((0, 0), (0, 1)))
        return MaskedMean(name="mean")(hidden, last_token)
    mean = MaskedMean(name="mean")(hidden, mask)
    if pooling == "mean":
        return mean
    u = MaskedMean(1, name="mean_of_text_a")(hidden, inputs["text_numbers"])
    v = MaskedMean(2, name="mean_of_text_b")(hidden, inputs["text_numbers"])
    return ops.concatenate([mean, u, v, ops.abs(u - v), u * v], axis=-1)
