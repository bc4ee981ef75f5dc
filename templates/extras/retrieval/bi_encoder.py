"""Bi-encoders: each text of a pair becomes a vector, and the cosine of both vectors is the score.

So a text is encoded once, whatever it is compared with, and a million candidates can be searched.
The price is that no token sees the other text. Source: Reimers and Gurevych 2019,
https://arxiv.org/abs/1908.10084.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from core.base.errors import InputError
from core.data.records import WEIGHT
from core.encoders.encoder import encoder_inputs, hidden_states
from core.step import Logits, Models, TrainingModel
from extras.retrieval.settings import Settings
from extras.retrieval.text_inputs import SIDES

Tensor: TypeAlias = keras.KerasTensor

# Fraction of the batches that may be without a pair to learn from before a warning is printed.
FEW_EMPTY = 0.05
PAIRS = "pairs"  # the kind of `Logits` that are two vectors and a grade


@keras.saving.register_keras_serializable("retrieval")
class Graded(keras.layers.Layer):
    """A layer that knows the place of each label among the grades; 0 is the worst grade.

    Args:
        places: of the labels, in the order of the model's outputs.
    """

    def __init__(self, places: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.places = list(places)

    def get_config(self) -> dict:
        return {**super().get_config(), "places": self.places}


@keras.saving.register_keras_serializable("retrieval")
class Grade(Graded):
    """How well two texts match according to their label, from 0 to 1."""

    def call(self, targets: Tensor) -> Tensor:
        """Return `[batch, 1]` for one-hot `targets` `[batch, labels]`."""
        places = ops.convert_to_tensor(self.places, self.compute_dtype)
        return ops.sum(targets * places, axis=-1, keepdims=True) / (len(self.places) - 1)


@keras.saving.register_keras_serializable("retrieval")
class GradeProbabilities(Graded):
    """The binomial distribution of the grades whose mean grows with the cosine.

    The chance of a success is (1 + cosine) / 2, which is the probability of the positive one of two
    labels. The probability of the highest grade always grows with the cosine.
    """

    def call(self, cosine: Tensor) -> Tensor:
        """Return `[batch, labels]` of cosines `[batch, 1]`."""
        share = ops.clip((1 + cosine) / 2, 0, 1)
        most = len(self.places) - 1
        ways = ops.convert_to_tensor([math.comb(most, k) for k in self.places], self.compute_dtype)
        places = ops.convert_to_tensor(self.places, self.compute_dtype)
        return ways * ops.power(share, places) * ops.power(1 - share, most - places)


@keras.saving.register_keras_serializable("retrieval")
class SquaredDistance(keras.layers.Layer):
    """The squared difference of two numbers `[batch, 1]` of each example: `[batch]`."""

    def call(self, one: Tensor, other: Tensor) -> Tensor:
        return ops.square(one - other)[:, 0]


def build_embedder(encoder: keras.Model, settings: Settings) -> keras.Model:
    """Return the model from the tokens of a text to `vector` `[batch, dimension]` of length 1.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        settings: `pooling`, and `dimension` of the table `retrieval`.
    """
    inputs = encoder_inputs(encoder)
    hidden = hidden_states(encoder, inputs, settings)
    if settings.pooling == "cls":
        vector = hidden[:, 0]
    else:
        mean = keras.layers.GlobalAveragePooling1D(name="mean")
        vector = mean(hidden, mask=inputs["padding_mask"])
    if settings.retrieval.dimension:
        project = keras.layers.Dense(settings.retrieval.dimension, use_bias=False, name="project")
        vector = project(vector)
    unit = keras.layers.UnitNormalization(dtype="float32", name="unit")
    return keras.Model(inputs, {"vector": unit(vector)}, name="embedder")


def build_pair_models(encoder: keras.Model, labels: Any, settings: Settings) -> Models:
    """Return the training model and the inference model (output: probabilities) of a bi-encoder.

    The training model has the loss of single pairs, (cosine - grade)^2. Losses that compare pairs
    with each other replace it in `PairGradients`, because no layer may look across examples.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        labels: of the task: `names`, `several`, `positive`, `counts`, `pairs`.
        settings: `pooling`, and the table `retrieval`.

    Raises:
        InputError: the data has no pairs, or its labels no order.
    """
    places = order_labels(labels, settings)
    embedder = build_embedder(encoder, settings)
    names = [tensor.name for tensor in encoder.inputs]
    inputs = {
        f"{side}{name}": keras.Input((None,), dtype="int32", name=f"{side}{name}")
        for side in SIDES
        for name in names
    }
    vectors = [
        embedder({name: inputs[f"{side}{name}"] for name in names})["vector"] for side in SIDES
    ]
    cosine = keras.layers.Dot(axes=-1, dtype="float32", name="cosine")(vectors)
    probabilities = GradeProbabilities(places, dtype="float32", name="probabilities")(cosine)
    inference = keras.Model(inputs, {"probabilities": probabilities}, name="inference")

    targets = keras.Input((len(labels.names),), name="targets")
    grade = Grade(places, dtype="float32", name="grade")(targets)
    loss = SquaredDistance(dtype="float32", name="pair_loss")(cosine, grade)
    training = TrainingModel({**inputs, "targets": targets}, {"pair_loss": loss}, name="training")
    pairs = keras.layers.Concatenate(dtype="float32", name="pairs")([*vectors, grade])
    compared = settings.retrieval.loss != "cosine"
    logits = (Logits(pairs, PAIRS),) if compared else ()
    return Models(training, inference, encoder, logits)


def order_labels(labels: Any, settings: Settings) -> list[int]:
    """Return the place of each label among the grades; 0 is the worst grade.

    Raises:
        InputError: the data has no pairs, or its labels no order.
    """
    chosen = f"retrieval.loss = {settings.retrieval.loss}"
    positive, names = labels.positive, labels.names
    if not labels.pairs:
        raise InputError(
            f"{chosen} compares two texts, and the training file has single ones: give each record "
            'a "text_b", or set loss = none.'
        )
    if getattr(labels, "scaling", None):
        raise InputError(f"{chosen} needs labels, or grades as labels: set output = label.")
    if labels.several:
        raise InputError(f'{chosen} needs one "label" a pair, not "labels": say if they fit.')
    if 0 in labels.counts and settings.retrieval.loss != "negatives":
        raise InputError(
            f"every training pair has the label {positive!r}, and {chosen} learns from others too: "
            "add some, or set loss = negatives, which takes the other texts of a batch."
        )
    if len(names) == 2:
        if positive is None:
            raise InputError(
                f"{chosen}: which of the labels {', '.join(names)} says that two texts belong "
                "together? Set positive_label to it."
            )
        return [int(name == positive) for name in names]
    try:
        grades = sorted(names, key=float)
    except ValueError:
        raise InputError(
            f"{chosen} needs two labels, or numbers as grades, not {', '.join(names[:5])}: make "
            "the labels 1 and 0, or numbers that grow as two texts fit."
        ) from None
    if positive not in (None, grades[-1]):
        raise InputError(
            f"{chosen}: the positive label is {positive!r}, and the best grade "
            f"{grades[-1]}: set positive_label = {grades[-1]!r}."
        )
    return [grades.index(name) for name in names]


def refuse_empty_batches(settings: Settings, train_batches: Any) -> None:
    """Warn of batches of the first epoch that have nothing to learn from.

    Raises:
        InputError: all are so, or records have weights, which these losses can't take.
    """
    loss = settings.retrieval.loss
    if any(weight != 1 for weight in train_batches.weights):
        raise InputError(
            f'records have a "{WEIGHT}", but retrieval.loss = {loss} compares the records of a '
            "batch with each other: leave the weights out, or set loss = cosine."
        )
    places = np.array(order_labels(train_batches.labels, settings))
    planned = (positions for positions, _ in train_batches.plan(0))
    found = [places[train_batches.targets[own].argmax(axis=-1)] for own in planned]
    if loss == "negatives":
        empty = np.mean([own.max() < places.max() for own in found])
        what = f"no pair with the label {train_batches.labels.names[places.argmax()]!r}"
        advice = "raise batch_size, or leave out other pairs"
    else:
        empty = np.mean([own.max() == own.min() for own in found])
        what, advice = "pairs of only one label", "raise batch_size"
    if empty == 1:
        raise InputError(
            f"every batch has {what}, which teaches retrieval.loss = {loss} nothing: {advice}."
        )
    if empty > FEW_EMPTY:
        print(f"warning: {empty:.0%} of the batches have {what} and teach nothing: {advice}.")
