"""Collect the candidates of all windows of all records, in limited memory."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from core.data.tokens import Window

# How many candidates are kept; a trained model has far fewer in a window.
KEPT_PER_WINDOW, KEPT_AT_LEAST = 64, 10_000


class BestCandidates:
    """Keep the N best-scoring candidates over all records, ties included.

    Without the limit an untrained model, which accepts nearly everything, would fill the memory.

    Args:
        generator: of the windows; `examples` are the records.
        keep_all: drop nothing, because a threshold is known already.
    """

    def __init__(self, generator: Any, keep_all: bool) -> None:
        self.found: dict[Any, dict] = {example.id: {} for example in generator.examples}
        most = max(KEPT_AT_LEAST, KEPT_PER_WINDOW * generator.size)
        self.most: Any = np.inf if keep_all else most
        self.floor, self.added = -np.inf, 0

    def add(self, record: Hashable, scored: dict) -> None:
        """Add the candidates of a window; each keeps its highest score over all windows."""
        own = self.found[record]
        for key, score in scored.items():
            if score >= self.floor:
                own[key] = max(score, own.get(key, score))
        self.added += len(scored)
        if self.added > self.most:
            self.kept()

    def kept(self) -> dict[Any, dict]:
        """Return record -> its best candidates with their scores; drop all others."""
        self.added, scores = 0, [score for own in self.found.values() for score in own.values()]
        if len(scores) > self.most:
            if self.floor == -np.inf:
                print(f"\nnote: too many candidates: only the {self.most} best-scoring ones count")
            self.floor = np.partition(scores, -self.most)[-self.most]
            for record, own in self.found.items():
                self.found[record] = {k: score for k, score in own.items() if score >= self.floor}
        return self.found


def decode_windows(
    predictor: Any,
    generator: Any,
    decode_window: Callable[[dict[str, np.ndarray], Window], Any],
    progress: str,
) -> Iterator[tuple[Any, Any]]:
    """Yield the example of each window, and what `decode_window` returns for its outputs.

    Args:
        predictor: of the inference model.
        generator: a `WindowGenerator` of the examples, without labels.
        decode_window: of the task.
        progress: title of the progress bar; empty: none.
    """

    def decode(positions: np.ndarray, outputs: dict[str, np.ndarray]) -> list:
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        windows = [generator.windows[position] for position in positions]
        return [decode_window(row, window) for row, window in zip(rows, windows, strict=True)]

    for position, decoded in predictor.decode(generator, decode, progress):
        yield generator.examples[generator.record_of[position]], decoded
