"""The lengths that a TPU pads batches to: it compiles each, so all chunks share them."""

import numpy as np

from core.base.settings import RecordSettings


def even_lengths(settings: RecordSettings, longest: int) -> np.ndarray:
    """Return as many lengths as there are buckets, up to `max_length`; more is for what is longer.

    Args:
        settings: `buckets`, `max_length`.
        longest: tokens of the longest window of a chunk.
    """
    parts = np.arange(1, settings.buckets + 1)
    lengths = -(-settings.max_length * parts // settings.buckets)
    return np.unique([*lengths, max(longest, settings.max_length)])
