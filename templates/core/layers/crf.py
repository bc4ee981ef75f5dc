"""A linear-chain CRF over BIO tags: its likelihood for training, Viterbi for decoding.

The score of a sequence of tags is the sum of its emissions and transitions. Its probability is the
exponential of that score, divided by the sum over all sequences. Source: Lafferty et al. 2001,
https://repository.upenn.edu/cis_papers/159.

Tag 0 is "outside", tag 1 + 2 n begins a span of label n, and tag 2 + 2 n continues it. Shapes:
emissions `[batch, length, tags]`, transitions `[batch, tags + 1, tags]`, tags and masks
`[batch, length]`. A mask is 1 for tokens, then 0 for padding.
"""

from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

from core.fast.transformer import MASKED

# Too small to change a sum in float32, yet its logarithm is finite.
LEAST = 1e-30

# A label, and the first and the last token that it covers.
LabelledSpan = tuple[int, tuple[int, int]]


def spans_of_tags(tags: np.ndarray) -> list[LabelledSpan]:
    """Return the spans that a sequence of tags `[length]` marks.

    >>> spans_of_tags(np.array([0, 1, 2, 3, 0]))
    [(0, (1, 2)), (1, (3, 3))]
    """
    spans = []
    for first in np.flatnonzero(tags % 2 == 1).tolist():
        last = first
        while last + 1 < len(tags) and tags[last + 1] == tags[first] + 1:
            last += 1
        spans.append((int(tags[first] - 1) // 2, (first, last)))
    return spans


def legal_transitions(labels: int) -> np.ndarray:
    """Return which tag may follow which, `[tags + 1, tags]`; last row: which may come first.

    >>> legal_transitions(1).astype(int)  # rows and columns: outside, begin, continue
    array([[1, 1, 0],
           [1, 1, 1],
           [1, 1, 1],
           [1, 1, 0]])
    """
    tags = 1 + 2 * labels
    legal = np.ones((tags + 1, tags), bool)
    legal[:, 2::2] = False
    for inside in range(2, tags, 2):
        legal[[inside - 1, inside], inside] = True
    return legal


# Registered as "task", where these layers once were: old runs still load.
@keras.saving.register_keras_serializable("task")
class TagTransitions(keras.layers.Layer):
    """Learned scores of each tag after each other; transitions that BIO forbids are `MASKED`.

    The output repeats the scores for each example, because averaging over models and joining
    replicas need outputs whose first axis is the batch.

    Args:
        labels: how many; there are 1 + 2 labels tags.

    Example:
    >>> emissions = np.zeros((4, 7, 3), "float32")  # 4 texts of 7 tokens, 3 tags
    >>> TagTransitions(labels=1)(emissions).shape  # after each of 3 tags, or at the start
    TensorShape([4, 4, 3])
    """

    def __init__(self, labels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.labels = labels

    def build(self, emissions_shape: tuple) -> None:
        tags = 1 + 2 * self.labels
        self.transitions = self.add_weight(
            shape=(tags + 1, tags), initializer="zeros", name="transitions"
        )

    def call(self, emissions) -> KerasTensor:
        legal = ops.convert_to_tensor(legal_transitions(self.labels))
        scores = ops.where(legal, ops.cast(self.transitions, "float32"), MASKED)
        return ops.broadcast_to(scores, (ops.shape(emissions)[0], *scores.shape))

    def compute_output_spec(self, emissions) -> KerasTensor:
        tags = 1 + 2 * self.labels
        return KerasTensor((emissions.shape[0], tags + 1, tags), dtype="float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "labels": self.labels}


@keras.saving.register_keras_serializable("task")
class CrfLoss(keras.layers.Layer):
    """Negative log-likelihood of the true tags; its output is the loss `[batch]`.

    Example:
    >>> emissions = np.zeros((1, 2, 3), "float32")  # one text of two tokens, one label
    >>> transitions = TagTransitions(labels=1)(emissions)
    >>> tags, mask = np.array([[1, 2]]), np.array([[1, 1]])
    >>> loss = CrfLoss()(emissions, transitions, tags, mask)
    >>> round(float(np.exp(loss[0])), 3)  # all five legal sequences are equally likely
    5.0
    """

    has_loop = True  # over tokens: no program of its own, see core/fast/layer_programs.py

    def call(self, emissions, transitions, tags, mask) -> KerasTensor:
        emissions = ops.cast(emissions, "float32")
        true_score = score_tags(emissions, transitions, tags, mask)
        return log_sum(emissions, transitions, mask) - true_score

    def compute_output_spec(self, emissions, *others) -> KerasTensor:
        return KerasTensor((emissions.shape[0],), dtype="float32")


def score_tags(emissions, transitions, tags, mask) -> KerasTensor:
    """Return the score `[batch]` of one sequence of tags for each example.

    >>> emissions = np.array([[[0, 2, 0], [0, 0, 3]]], "float32")
    >>> transitions = np.ones((1, 4, 3), "float32")
    >>> float(score_tags(emissions, transitions, np.array([[1, 2]]), np.ones((1, 2)))[0])
    7.0
    """
    count = emissions.shape[-1]
    tags, mask = ops.cast(tags, "int32"), ops.cast(mask, "float32")
    emitted = ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]
    # The first tag follows the start of the text: the last row of the transitions.
    before = ops.concatenate([ops.full_like(tags[:, :1], count), tags[:, :-1]], axis=1)
    flat = ops.reshape(transitions, (-1, (count + 1) * count))
    passed = ops.take_along_axis(flat, before * count + tags, axis=1)
    return ops.sum((emitted + passed) * mask, axis=1)


def log_sum(emissions, transitions, mask) -> KerasTensor:
    """Return the logarithm `[batch]` of the sum of e^score over all sequences of tags.

    This is the forward algorithm: token by token, for each tag, the logarithm of the sum over all
    beginnings that end in this tag.
    """
    # Matrix products: a sum over pairs of tags would hold tags^2 numbers for each token.
    follow = ops.exp(transitions[:, :-1])

    def step(before, token) -> tuple[KerasTensor, KerasTensor]:
        # before `[batch, tags]`: the sums up to the last token. token `[batch, tags + 1]`: the
        # emissions of this one, and its mask. Padding passes the sums on.
        emitted, real = token[:, :-1], token[:, -1:] > 0
        top = ops.stop_gradient(ops.max(before, axis=-1, keepdims=True))
        summed = ops.matmul(ops.exp(before - top)[:, None], follow)[:, 0]
        after = emitted + top + ops.log(ops.maximum(summed, LEAST))
        after = ops.where(real, after, before)
        return after, after

    # One array: `ops.scan` can't loop over several arrays whose length is only known at run time.
    both = ops.concatenate([emissions, ops.cast(mask, emissions.dtype)[..., None]], axis=-1)
    first = emissions[:, 0] + transitions[:, -1]
    last, _ = ops.scan(step, first, ops.transpose(both[:, 1:], (1, 0, 2)))
    return ops.logsumexp(last, axis=-1)


def viterbi(emissions: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return the best sequence of tags `[length]` for the tokens of one example.

    >>> emissions = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    >>> viterbi(emissions, np.zeros((4, 3)))
    array([1, 2])
    """
    scores, came_from = emissions[0] + transitions[-1], []
    for emitted in emissions[1:]:
        paths = scores[:, None] + transitions[:-1]
        came_from.append(paths.argmax(axis=0))
        scores = emitted + paths.max(axis=0)
    tags = [scores.argmax()]
    for pointers in reversed(came_from):
        tags.append(pointers[tags[-1]])
    return np.array(tags[::-1])
