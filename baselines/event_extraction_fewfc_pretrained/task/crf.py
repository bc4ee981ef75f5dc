"""A linear-chain CRF over BIO tags: its likelihood for training, Viterbi for decoding.

A sequence of tags scores the sum of its emissions and transitions; its probability is the
exponential of that over the sum for all sequences. Source: Lafferty et al. 2001,
https://repository.upenn.edu/cis_papers/159.
"""

import keras
import numpy as np
from keras import ops

from common.layers import MASKED

# Below any share of a sum that float32 can tell, and yet its logarithm is finite.
LEAST = 1e-30


def legal_transitions(labels: int) -> np.ndarray:
    """Return which tag may follow which, `[tags + 1, tags]`; the last row is the text's beginning.

    Args:
        labels: number of labels: tags are "outside", and for each label "begin" and "inside".
    """
    tags = 1 + 2 * labels
    legal = np.ones((tags + 1, tags), bool)
    legal[:, 2::2] = False
    for inside in range(2, tags, 2):
        legal[[inside - 1, inside], inside] = True
    return legal


@keras.saving.register_keras_serializable("task")
class TagTransitions(keras.layers.Layer):
    """Learned scores of one tag after another; what BIO forbids scores `MASKED`.

    The output repeats them for each example, `[batch, tags + 1, tags]`: so every output of the
    model has the batch as its first axis, as averaging over models and replicas needs.

    Args:
        labels: number of labels.
    """

    def __init__(self, labels: int, **kwargs):
        super().__init__(**kwargs)
        self.labels = labels

    def build(self, emissions_shape):
        tags = 1 + 2 * self.labels
        self.transitions = self.add_weight(
            shape=(tags + 1, tags), initializer="zeros", name="transitions"
        )

    def call(self, emissions):
        """Return the transitions for a batch of emissions `[batch, length, tags]`."""
        legal = ops.convert_to_tensor(legal_transitions(self.labels))
        scores = ops.where(legal, ops.cast(self.transitions, "float32"), MASKED)
        return ops.broadcast_to(scores, (ops.shape(emissions)[0], *scores.shape))

    def compute_output_shape(self, emissions_shape):
        tags = 1 + 2 * self.labels
        return (emissions_shape[0], tags + 1, tags)

    def compute_output_spec(self, emissions):
        return keras.KerasTensor(self.compute_output_shape(emissions.shape), dtype="float32")

    def get_config(self):
        return {**super().get_config(), "labels": self.labels}


@keras.saving.register_keras_serializable("task")
class CrfLoss(keras.layers.Layer):
    """Negative log-likelihood of the true tags; its output is the loss `[batch]`."""

    def call(self, emissions, transitions, tags, mask):
        """Return the loss of each example.

        Args:
            emissions: `[batch, length, tags]`.
            transitions: `[batch, tags + 1, tags]`.
            tags: the true ones, `[batch, length]` integers.
            mask: `[batch, length]`, 1 for tokens, then 0 for padding.
        """
        emissions = ops.cast(emissions, "float32")
        return log_sum(emissions, transitions, mask) - score_tags(
            emissions, transitions, tags, mask
        )

    def compute_output_shape(self, emissions_shape, *other_shapes):
        return (emissions_shape[0],)

    def compute_output_spec(self, emissions, transitions, tags, mask):
        return keras.KerasTensor((emissions.shape[0],), dtype="float32")


def score_tags(emissions, transitions, tags, mask):
    """Return the score `[batch]` of one sequence of tags for each example."""
    count = emissions.shape[-1]
    tags, mask = ops.cast(tags, "int32"), ops.cast(mask, "float32")
    emitted = ops.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]
    # Before the first tag stands the text's beginning, the last row of the transitions.
    before = ops.concatenate([ops.full_like(tags[:, :1], count), tags[:, :-1]], axis=1)
    flat = ops.reshape(transitions, (-1, (count + 1) * count))
    passed = ops.take_along_axis(flat, before * count + tags, axis=1)
    return ops.sum((emitted + passed) * mask, axis=1)


def log_sum(emissions, transitions, mask):
    """Return the logarithm `[batch]` of the sum of e^score over all sequences of tags."""
    # Matrix products: a sum over pairs of tags at each token would hold tags^2 numbers for each.
    follow = ops.exp(transitions[:, :-1])

    def step(before, token):
        emitted, real = split_token(token)
        top = ops.stop_gradient(ops.max(before, axis=-1, keepdims=True))
        summed = ops.matmul(ops.exp(before - top)[:, None], follow)[:, 0]
        after = emitted + top + ops.log(ops.maximum(summed, LEAST))
        after = ops.where(real, after, before)
        return after, after

    first = emissions[:, 0] + transitions[:, -1]
    last, _ = ops.scan(step, first, later_tokens(emissions, mask))
    return ops.logsumexp(last, axis=-1)


def viterbi(emissions, transitions, mask):
    """Return the best sequence of tags `[batch, length]` for each example; 0 at the padding.

    Args:
        emissions: `[batch, length, tags]`.
        transitions: `[batch, tags + 1, tags]`.
        mask: `[batch, length]`, 1 for tokens, then 0 for padding.
    """
    emissions, mask = ops.cast(emissions, "float32"), ops.cast(mask, "int32")
    stay = ops.cast(ops.arange(ops.shape(emissions)[-1]), "int32")

    def step(state, token):
        before, _ = state
        emitted, real = split_token(token)
        paths = before[:, :, None] + transitions[:, :-1]
        after = ops.where(real, emitted + ops.max(paths, axis=1), before)
        # Padding points to the same tag: the way back passes it unchanged.
        came_from = ops.cast(ops.argmax(paths, axis=1), "int32")
        state = after, ops.where(real, came_from, stay[None])
        return state, state

    first = emissions[:, 0] + transitions[:, -1]
    start = first, ops.zeros_like(first, dtype="int32") + stay[None]
    (last, _), (_, pointers) = ops.scan(step, start, later_tokens(emissions, mask))

    def step_back(tag, pointer):
        tag = ops.take_along_axis(pointer, tag[:, None], axis=1)[:, 0]
        return tag, tag

    best = ops.cast(ops.argmax(last, axis=-1), "int32")
    _, tags = ops.scan(step_back, best, pointers, reverse=True)
    return ops.concatenate([ops.transpose(tags), best[:, None]], axis=1) * mask


def later_tokens(emissions, mask):
    """Return emissions from the second token on and, behind them, the mask; tokens come first.

    One array, `[length - 1, batch, tags + 1]`: `ops.scan` can't loop over several of which the
    length is known at run time only.
    """
    both = ops.concatenate([emissions, ops.cast(mask, emissions.dtype)[..., None]], axis=-1)
    return ops.transpose(both[:, 1:], (1, 0, 2))


def split_token(token):
    """Return the emissions `[batch, tags]` of one token, and whether it is one `[batch, 1]`."""
    return token[:, :-1], token[:, -1:] > 0
