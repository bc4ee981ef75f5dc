"""The best scores of pointers, without all scores of a text in memory.

200 heads over 512 tokens are 200 MiB a text. `best_spans` goes through them head by head, and
`score_pairs` computes only the pairs that are asked for.
"""

from collections.abc import Iterable, Sequence

import tensorflow as tf
from keras import ops

from core.layers.pointers import Parts, mask_impossible, pair_scores


def best_spans(models: Sequence[Parts], mask, most: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best spans of each head, from the mean of the scores of several models.

    Args:
        models: the parts of a pointer in each of them.
        mask: `[batch, length]`, 1 for tokens.
        most: spans of a head, unless there are fewer pairs.

    Returns:
        Scores `[batch, heads, spans]`, the highest first, and as numbers in the grids of all heads,
        (head x length + start) x length + end, the spans; of equal ones the first is the better.
    """
    length = ops.shape(mask)[1]
    cells = length * length

    def best_of(head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        own = [[tf.gather(p, [head % p.shape[1]], axis=1) for p in parts] for parts in models]
        scores = mask_impossible(mean(pair_scores(*parts) for parts in own), mask, spans=True)
        values, places = tf.math.top_k(tf.reshape(scores, (-1, cells)), tf.minimum(most, cells))
        return values, head * cells + places

    # One after the other: so many grids are held at once.
    heads = tf.range(max(part.shape[1] for part in models[0]))
    kinds = (tf.float32, tf.int32)
    values, places = tf.map_fn(best_of, heads, parallel_iterations=1, fn_output_signature=kinds)
    return tf.transpose(values, (1, 0, 2)), tf.transpose(places, (1, 0, 2))


def score_pairs(models: Sequence[Parts], heads, rows, columns) -> tf.Tensor:
    """Return the scores of some pairs of tokens alone, the mean over several models.

    Args:
        models: the parts of a pointer in each of them.
        heads: which head is asked; it has the shape of `rows` and `columns`, or is broadcast.
        rows: tokens `[batch, ..., rows]` that stand in front; `columns` those behind.

    Returns:
        `[batch, ..., rows, columns]`.
    """
    # Of the parts every second one, keys and ends, belongs to the tokens behind.
    places = (rows, columns)
    return mean(
        pair_scores(*(pick(part, heads, places[number % 2]) for number, part in enumerate(parts)))
        for parts in models
    )


def pick(values, heads, tokens) -> tf.Tensor:
    """Return values `[batch, heads or 1, length, ...]` at tokens `[batch, ..., n]` of heads."""
    count, length = ops.shape(values)[1:3]
    flat = tf.reshape(values, (-1, count * length, *values.shape[3:]))
    return tf.gather(flat, tokens + heads * length if count > 1 else tokens, batch_dims=1)


def mean(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
    """Return the mean of tensors of one shape."""
    every = list(tensors)
    return sum(every[1:], every[0]) / len(every)
