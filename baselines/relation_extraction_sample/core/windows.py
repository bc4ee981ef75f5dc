"""Batches of windows: long texts are split, and each window is one row of a batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.batches import Batch, DataGenerator, pad
from core.data.tokens import Window, split_into_windows


class WindowGenerator(DataGenerator):
    """Batches of the windows of texts; a task defines the labels of one window.

    Each row of a batch is one window. `self.examples` holds the records; window n belongs to the
    record `self.examples[self.record_of[n]]`.

    Args:
        examples: records with a `text`.
        tokenizer: of the encoder.
        encoder_inputs: names of the encoder's inputs.
        settings: `max_length`, `window_overlap`, `buckets`, `seed`.
        batch_size: windows in a batch.
        labels: False for prediction.
    """

    of_items = ("windows", "labels")  # for extras/cache: it keeps these, one entry a window
    learns_unlabelled = True  # for extras/regularization: it may train on unlabelled windows

    def __init__(
        self,
        examples: Sequence[Any],
        tokenizer: Any,
        encoder_inputs: Sequence[str],
        settings: Any,
        batch_size: int,
        labels: bool,
    ) -> None:
        self.examples, self.encoder_inputs = list(examples), list(encoder_inputs)
        texts = [example.text for example in examples]
        length, overlap = settings.max_length, settings.window_overlap
        windows = split_into_windows(tokenizer, texts, length, overlap, progress="encode")
        self.windows = [window for group in windows for window in group]
        self.record_of = np.array([n for n, group in enumerate(windows) for _ in group], int)
        lengths = [len(window) for window in self.windows]  # in tokens
        super().__init__(lengths, batch_size, settings.buckets, settings.seed)
        labelled = zip(self.record_of, self.windows, strict=True) if labels else ()
        self.labels = [self.label_window(self.examples[n], window) for n, window in labelled]
        self.measure()  # a task may set sizes that all batches share

    def label_window(self, example: Any, window: Window) -> Any:
        """Return the labels of one window of an example."""
        raise NotImplementedError

    def encoder_batch(self, positions: np.ndarray, length: int) -> Batch:
        """Return the encoder's inputs `[batch, length]`; `padding_mask` is 0 at padding."""
        token_ids = [self.windows[position].token_ids for position in positions]
        arrays = {
            "token_ids": pad(token_ids, length),
            "segment_ids": np.zeros((len(positions), length), np.int32),
            "padding_mask": pad([np.ones(len(ids), np.int32) for ids in token_ids], length),
        }
        return {name: arrays[name] for name in self.encoder_inputs}
