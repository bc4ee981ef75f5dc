"""Group the examples of an epoch into batches of similar lengths, to pad little."""

import numpy as np


def cut_batches(
    order: np.ndarray, lengths: np.ndarray, batch_size: int, random: np.random.Generator | None
) -> list[tuple[np.ndarray, int]]:
    """Return batches of one bucket each; the examples left over in a bucket join the next one.

    Args:
        order: positions of the examples, in the order of the epoch.
        lengths: the padded length of each; in training it is the boundary of its bucket.
        batch_size: examples in a batch; only the last batch may have fewer.
        random: shuffles the full batches; None: shortest first.
    """
    batches, left_over = [], order[:0]
    for length in np.unique(lengths):
        members = np.concatenate([left_over, order[lengths == length]])
        full = len(members) - len(members) % batch_size
        batches += [
            (members[start : start + batch_size], int(length))
            for start in range(0, full, batch_size)
        ]
        left_over = members[full:]
    if random is not None:
        batches = [batches[position] for position in random.permutation(len(batches))]
    if len(left_over):
        batches.append((left_over, int(lengths[np.isin(order, left_over)].max())))
    return batches


def bucket_boundaries(lengths: np.ndarray, counts: np.ndarray, buckets: int) -> np.ndarray:
    """Return at most `buckets` padded lengths, those that waste the fewest tokens.

    Exact, by dynamic programming: cheapest(b, j) = min over i < j of cheapest(b - 1, i) + the
    tokens of all examples of lengths i+1..j, padded to length j.

    Args:
        lengths: the different lengths of the examples, ascending.
        counts: the number of examples of each length.
        buckets: the largest number of padded lengths.

    Example:

    >>> bucket_boundaries(np.array([3, 4, 9]), np.array([5, 5, 2]), 2).tolist()
    [4, 9]
    """
    total = np.concatenate([[0], np.cumsum(counts)])
    cost = np.where(
        np.tri(len(lengths) + 1, len(lengths), -1).astype(bool),
        np.inf,
        (total[None, 1:] - total[:, None]) * lengths[None, :],
    )
    cheapest = np.concatenate([[0.0], np.full(len(lengths), np.inf)])
    choices = []
    for _ in range(min(buckets, len(lengths))):
        candidates = cheapest[:, None] + cost
        choices.append(candidates.argmin(axis=0))
        cheapest = np.concatenate([[np.inf], candidates.min(axis=0)])
    boundaries, end = [], len(lengths)
    for choice in reversed(choices):
        boundaries.append(lengths[end - 1])
        end = choice[end - 1]
    return np.array(boundaries[::-1])
