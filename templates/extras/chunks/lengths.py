"""Padded lengths of batches on a TPU: it compiles each length, so all chunks share them."""

import numpy as np

from core.base.settings import RecordSettings


def even_lengths(settings: RecordSettings, longest: int) -> np.ndarray:
    """Return one length per bucket, up to `max_length`, and further ones for longer windows.

    Args:
        settings: `buckets`, `max_length`.
        longest: tokens of the longest window of a chunk.
    """
    parts = np.arange(1, settings.buckets + 1)
    lengths = -(-settings.max_length * parts // settings.buckets)
    return np.unique([*lengths, max(longest, settings.max_length)])
