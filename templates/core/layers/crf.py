"""A linear-chain CRF over BIO tags: its likelihood for training, Viterbi for decoding.

A sequence of tags scores the sum of its emissions and transitions; its probability is the
exponential of that over the sum for all sequences. Source: Lafferty et al. 2001,
https://repository.upenn.edu/cis_papers/159.

Tag 0 is "outside", 1 + 2 n begins label n, and 2 + 2 n goes on with it. Emissions are
`[batch, length, tags]`, transitions `[batch, tags + 1, tags]`, tags and masks `[batch, length]`: a
mask is 1 for tokens, then 0 for padding.
"""

from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

from core.fast.transformer import MASKED

# Below any share of a sum that float32 can tell, and yet its logarithm is finite.
LEAST = 1e-30


def legal_transitions(labels: int) -> np.ndarray:
    """Return which tag may follow which, `[tags + 1, tags]`; the last row is the beginning."""
    tags = 1 + 2 * labels
    legal = np.ones((tags + 1, tags), bool)
    legal[:, 2::2] = False
    for inside in range(2, tags, 2):
        legal[[inside - 1, inside], inside] = True
    return legal


# They stood in task/ once: their names stay.
@keras.saving.register_keras_serializable("task")
class TagTransitions(keras.layers.Layer):
    """Learned scores of one tag after another, of so many labels; what BIO forbids is `MASKED`.

    The output repeats them for each example: so every output of the model has the batch as its
    first axis, as averaging over models and replicas needs.
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
    """Negative log-likelihood of the true tags; its output is the loss `[batch]`."""

    def call(self, emissions, transitions, tags, mask) -> KerasTensor:
        emissions = ops.cast(emissions, "float32")
        own = score_tags(emissions, transitions, tags, mask)
        return log_sum(emissions, transitions, mask) - own

    def compute_output_spec(self, emissions, *others) -> KerasTensor:
        return KerasTensor((emissions.shape[0],), dtype="float32")


def score_tags(emissions, transitions, tags, mask) -> KerasTensor:
    """Return the score `[batch]` of one sequence of tags for each example."""
    count = emissions.shape[-1]
    tags, mask = ops.cast(tags, "int32"), ops.cast(mask, "float32")
    emitted = ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]
    # Before the first tag stands the text's beginning, the last row of the transitions.
    before = ops.concatenate([ops.full_like(tags[:, :1], count), tags[:, :-1]], axis=1)
    flat = ops.reshape(transitions, (-1, (count + 1) * count))
    passed = ops.take_along_axis(flat, before * count + tags, axis=1)
    return ops.sum((emitted + passed) * mask, axis=1)


def log_sum(emissions, transitions, mask) -> KerasTensor:
    """Return the logarithm `[batch]` of the sum of e^score over all sequences of tags."""
    # Matrix products: a sum over pairs of tags at each token would hold tags^2 numbers for each.
    follow = ops.exp(transitions[:, :-1])

    def step(before, token) -> tuple[KerasTensor, KerasTensor]:
        emitted, real = token[:, :-1], token[:, -1:] > 0
        top = ops.stop_gradient(ops.max(before, axis=-1, keepdims=True))
        summed = ops.matmul(ops.exp(before - top)[:, None], follow)[:, 0]
        after = emitted + top + ops.log(ops.maximum(summed, LEAST))
        after = ops.where(real, after, before)
        return after, after

    # One array: `ops.scan` can't loop over several whose length is known at run time only.
    both = ops.concatenate([emissions, ops.cast(mask, emissions.dtype)[..., None]], axis=-1)
    first = emissions[:, 0] + transitions[:, -1]
    last, _ = ops.scan(step, first, ops.transpose(both[:, 1:], (1, 0, 2)))
    return ops.logsumexp(last, axis=-1)


def viterbi(emissions: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return the best sequence of tags `[length]` for the tokens of one example."""
    scores, came_from = emissions[0] + transitions[-1], []
    for emitted in emissions[1:]:
        paths = scores[:, None] + transitions[:-1]
        came_from.append(paths.argmax(axis=0))
        scores = emitted + paths.max(axis=0)
    tags = [scores.argmax()]
    for pointers in reversed(came_from):
        tags.append(pointers[tags[-1]])
    return np.array(tags[::-1])
