"""Batches of spans and links with probabilities, and the loss of pointers that learns them.

A pointer learns cells: pairs of tokens. A cell has the probability of the most probable item that
it belongs to; the link of two arguments that of the less probable one. Other cells have 0.

Batches and models keep their shapes: the probability is in the upper bits of the two tokens.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from core.base.errors import InputError
from core.base.replace_class import replace_class
from core.exact.dropout import named_layers
from core.fast.transformer import MASKED
from core.step import Models
from core.training import Training
from extras.distillation.soft_records import name_of_items

Tensor: TypeAlias = keras.KerasTensor
Pair = tuple[int, int]

BITS = 15  # of a token's number; all pairs of so many tokens would fill any memory
STEPS = 2**BITS


def learn_probabilities(training: Training, first: Any) -> None:
    """Let a training learn the probabilities of items.

    Args:
        training: before it is compiled.
        first: an example that has some.

    Raises:
        InputError: the model learns one sequence of tags, or has a loss of its own.
    """
    if not change_losses(training.models):
        has_tagger = hasattr(training.settings, "tagger")
        model = getattr(training.settings, "tagger" if has_tagger else "model", "")
        change = 'tagger = "pointer"' if has_tagger else 'model = "gplinker"'
        reason = f"a CRF learns one sequence of tags: set {change}, or"
        if model != "crf":
            reason = "no loss of task/model.py is ManyHeadsLoss or SparseMultilabelLoss:"
        raise InputError(
            f"the record {first.id!r} on line {first.line} has items with probabilities, but "
            f"{reason} write plain labels with label.py --hard."
        )
    training.batches = with_probabilities(training.batches)


def with_probabilities(batches: Any) -> Any:
    """Return batches whose labels have the probabilities of the items, as `pack` puts them there.

    Args:
        batches: a `WindowGenerator` with the labels of pointers.
    """
    changed = {}
    for place, number in enumerate(batches.record_of):
        example = batches.examples[number]
        if example.levels:
            changed[place] = soft_labels(batches, example, batches.windows[place])
    soft = copy.copy(batches)
    soft.labels = Changed(batches.labels, changed)
    soft.measure()
    return soft


class Changed(Sequence):
    """A sequence in which some values are replaced.

    Args:
        values: may be read from files.
        changed: place -> the value that is there now.
    """

    def __init__(self, values: Sequence, changed: Mapping[int, Any]) -> None:
        self.values, self.changed = values, changed

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        place = range(len(self.values))[place]
        return self.changed[place] if place in self.changed else self.values[place]


def soft_labels(batches: Any, example: Any, window: Any) -> Any:
    """Return the labels of a window as the task makes them, with probabilities in the pairs."""
    name, shares = name_of_items(example), dict[tuple, float]()
    for level, items in example.levels:  # the most probable first
        part = replace(example, **{name: items}, levels=())
        labels = batches.label_window(part, window)
        for cell in cells_of(labels):
            shares.setdefault(cell, level)
    return with_shares(labels, shares)


def cells_of(labels: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the names, the head and the pair of each cell in the labels of a window."""
    if isinstance(labels, np.ndarray):  # [heads, pairs, 2]; others are no cells
        for head in range(len(labels) if labels.ndim == 3 else 0):
            yield from (
                (*path, head, tuple(pair)) for pair in labels[head].tolist() if pair[0] >= 0
            )
        return
    for key, value in labels.items():
        yield from [(*path, key)] if value is None else cells_of(value, (*path, key))


def with_shares(labels: Any, shares: Mapping[tuple, float], path: tuple = ()) -> Any:
    """Return the labels of a window with the probabilities of its cells in their pairs."""
    if isinstance(labels, np.ndarray):
        changed = labels.copy()
        for head in range(len(labels) if labels.ndim == 3 else 0):
            for place, pair in enumerate(map(tuple, labels[head].tolist())):
                if pair[0] >= 0:
                    changed[head, place] = pack(pair, shares[(*path, head, pair)])
        return changed
    found: dict = {}
    for key, value in labels.items():
        if value is None:
            found[pack(key, shares[(*path, key)])] = None
        else:
            found[key] = with_shares(value, shares, (*path, key))
    return found


def pack(pair: Pair, share: float) -> Pair:
    """Return a pair of tokens with its probability, in steps of 2^-30, in the upper bits.

    A pair of probability 1 is as it was.

    >>> pack((3, 7), 1.0), pack((3, 7), 0.5)
    ((3, 7), (536870915, 7))
    """
    steps = max(1, round(share * STEPS**2)) % STEPS**2
    return pair[0] + steps // STEPS * STEPS, pair[1] + steps % STEPS * STEPS


def unpack(pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Return pairs `[..., 2]` of tokens, -1 where there is none, and probabilities `[...]`."""
    used = pairs >= 0
    upper = ops.where(used, pairs // STEPS, 0)
    shares = ops.cast(upper, "float32")
    shares = shares[..., 0] / STEPS + shares[..., 1] / STEPS**2
    return ops.where(used, pairs - upper * STEPS, -1), ops.where(shares > 0, shares, 1.0)


class SoftPairs(keras.layers.Layer):
    """The loss of a pointer whose true pairs have probabilities.

    With targets t from 0 to 1 the loss of a head is log(1 + sum (1 - t) e^s) + log(1 + sum t e^-s).
    Source: Su 2022, https://kexue.fm/archives/9064.
    """

    read_pairs = staticmethod(unpack)  # regularization has further forms of this loss

    def call(
        self, scores: Tensor, labels: Tensor, head_weight: Tensor | None = None, **_: Any
    ) -> Tensor:
        """Return the loss of each example, of labels as `pack` returns them.

        Without the other arguments no faster way is taken, which knows no probabilities.
        """
        return super().call(scores, labels, head_weight)

    def split_pairs(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores - log t of the pairs that may be true, and all scores, theirs + log(1 - t).

        Args:
            scores: `[rows, length, length]`.
            labels: `[rows, pairs, 2]`, as `pack` returns them; -1 fills the unused ones.
        """
        labels, shares = unpack(labels)
        rows = tf.broadcast_to(tf.range(tf.shape(labels)[0])[:, None], tf.shape(labels)[:2])
        cells = tf.concat([rows[..., None], tf.maximum(labels, 0)], axis=-1)
        used = labels[..., 0] >= 0
        falsely = ops.where(shares < 1, ops.log1p(-ops.minimum(shares, 1 - 2.0**-24)), MASKED)
        true_scores, _ = super().split_pairs(scores, labels)
        others = tf.tensor_scatter_nd_add(scores, cells, ops.where(used, falsely, 0.0))
        return true_scores - ops.log(shares), others


def is_pointer_loss(layer: keras.layers.Layer) -> bool:
    """Tell whether a layer is a loss of pointers, by name: projects without them lack the class."""
    return any(kind.__name__ == "SparseMultilabelLoss" for kind in type(layer).__mro__)


def change_losses(models: Models) -> bool:
    """Let the losses of pointers learn probabilities; return whether there are any such losses."""
    losses = [one for _, one in named_layers(models.training) if is_pointer_loss(one)]
    for layer in dict.fromkeys(losses):
        # Of the same name, by which other extras know it.
        replace_class(layer, type(type(layer).__name__, (SoftPairs, type(layer)), {}))
    return bool(losses)
