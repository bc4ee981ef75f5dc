"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from task.data import Example, read_examples
from task.decode import Candidates, threshold_of
from task.evaluation import evaluate
from task.prediction import TEXT_SETTINGS, restore_labels
from task.settings import Settings

# What runs must share to read the same records.
READ_SETTINGS: tuple[str, ...] = TEXT_SETTINGS
# Whether thresholds for some candidates are found in a moment.
TUNES_QUICKLY = True


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with gold labels."""
    return read_examples(path, settings=settings)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score probabilities with the thresholds in `tuned`; None: with the best ones."""
    threshold = threshold_of(tuned) if tuned else None
    labels = restore_labels(runs.labels)
    return evaluate(examples, candidates, labels, path, runs.settings, threshold)


def blend_record(parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the mean of what several runs say of one record, probabilities or numbers."""
    return np.einsum("rl,r->l", np.stack(parts), np.asarray(weights))
