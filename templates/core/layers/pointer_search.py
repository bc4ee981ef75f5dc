"""The best scores of pointers, without all scores of a text in memory.

The scores of 200 heads over 512 tokens take 200 MiB per text. `best_spans` computes them head by
head, and `score_pairs` computes only the given pairs.
"""

from collections.abc import Iterable, Sequence

import tensorflow as tf
from keras import ops

from core.layers.global_pointer import Parts, pair_scores
from core.layers.pointers import mask_impossible


def best_spans(models: Sequence[Parts], mask, most: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the best spans of each head, from the mean of the scores of several models.

    Args:
        models: the parts of a pointer in each of them.
        mask: `[batch, length]`, 1 for tokens.
        most: spans of a head, unless there are fewer pairs.

    Returns:
        Scores, first tokens and last tokens, all `[batch, heads, spans]`, the highest score first.
        Of equal scores the span that starts first comes first, then the one that ends first.

    Example: the span from token 0 to token 1 scores highest.

    >>> queries, keys = np.array([[[[1.0], [0.0]]]]), np.array([[[[0.0], [5.0]]]])
    >>> found = best_spans([(queries, keys)], mask=np.ones((1, 2)), most=1)
    >>> [part.numpy().tolist() for part in found]
    [[[[5.0]]], [[[0]]], [[[1]]]]
    """

    def best_of(head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        own = [[tf.gather(p, [head % p.shape[1]], axis=1) for p in parts] for parts in models]
        grid = mask_impossible(mean(pair_scores(*parts) for parts in own), mask, spans=True)
        values, (_, first, last) = top_cells(grid, most)
        return values, first, last

    # One head after the other, so that only one grid is in memory.
    heads = tf.range(max(part.shape[1] for part in models[0]))
    kinds = (tf.float32, tf.int32, tf.int32)
    found = tf.map_fn(best_of, heads, parallel_iterations=1, fn_output_signature=kinds)
    values, first, last = (tf.transpose(part, (1, 0, 2)) for part in found)
    return values, first, last


def top_cells(grid: tf.Tensor, most: int) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return the highest values of a grid `[batch, ...]`, and where they are.

    Args:
        grid: with one axis or more after the first.
        most: values of each row, unless there are fewer.

    Returns:
        Values `[batch, n]`, highest first, and their index on each axis after the first. Of equal
        values the first one in the grid comes first.

    Example: the highest value is in row 1, column 0.

    >>> values, (rows, columns) = top_cells(tf.constant([[[1.0, 2.0], [9.0, 3.0]]]), most=1)
    >>> values.numpy().tolist(), rows.numpy().tolist(), columns.numpy().tolist()
    ([[9.0]], [[1]], [[0]])
    """
    sizes = tf.unstack(tf.shape(grid)[1:])
    cells = tf.reduce_prod(sizes)
    values, places = tf.math.top_k(tf.reshape(grid, (-1, cells)), tf.minimum(most, cells))
    indices = []
    for size in reversed(sizes):
        indices.append(places % size)
        places //= size
    return values, indices[::-1]


def score_pairs(models: Sequence[Parts], heads, rows, columns) -> tf.Tensor:
    """Return the scores of each row token with each column token, the mean over several models.

    Args:
        models: the parts of a pointer in each of them.
        heads: the head of each pair; of the shape of `rows` and `columns`, or broadcast to it.
        rows: first tokens `[batch, ..., rows]` of the pairs.
        columns: second tokens `[batch, ..., columns]`.

    Returns:
        `[batch, ..., rows, columns]`.
    """
    # Every second part, keys and ends, belongs to the second tokens.
    places = (rows, columns)
    return mean(
        pair_scores(*(pick(part, heads, places[number % 2]) for number, part in enumerate(parts)))
        for parts in models
    )


def pick(values, heads, places) -> tf.Tensor:
    """Return values `[batch, heads or 1, length, ...]` at places `[batch, ..., n]` of heads.

    Example: the values at places 1 and 0 of head 1.

    >>> values = np.array([[[10, 11, 12], [20, 21, 22]]])
    >>> pick(values, heads=1, places=np.array([[1, 0]])).numpy().tolist()
    [[21, 20]]
    """
    count, length = ops.shape(values)[1:3]
    flat = tf.reshape(values, (-1, count * length, *values.shape[3:]))
    return tf.gather(flat, places + heads * length if count > 1 else places, batch_dims=1)


def mean(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
    """Return the mean of tensors of one shape."""
    every = list(tensors)
    return sum(every[1:], every[0]) / len(every)
