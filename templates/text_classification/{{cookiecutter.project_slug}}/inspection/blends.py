"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import numpy as np

from core.base.extras import need
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from library.candidates import Candidates
from library.saved_thresholds import threshold_of
from task.evaluation import evaluate
from task.prediction import TEXT_SETTINGS, restore_labels
from task.records import Example, read_examples
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


class Stacking:
    """What a stack (extras/blends) asks of the task.

    Args:
        saved: the content of labels.json.
    """

    def __init__(self, saved: dict) -> None:
        self.labels = restore_labels(saved)
        one = "each" if self.labels.several else "one_label"
        self.kind = "numbers" if self.labels.are_numbers else one

    def scores_of(self, part: np.ndarray) -> dict[str, dict]:
        """Return the probability of each label, or each number: each is a group of its own."""
        return {str(index): {index: value} for index, value in enumerate(part.tolist())}

    def gold_of(self, example: Example, names: Iterable[int]) -> dict[Hashable, float]:
        """Return 1 for each label of a record, else 0, or its numbers."""
        if self.labels.are_numbers:
            gold = need("competition", "targets").gold_numbers([example])[0].tolist()
        elif self.kind == "each":
            gold = self.labels.hits([example])[0].tolist()
        else:
            gold = self.labels.targets([example])[0].tolist()
        return {name: float(gold[name]) for name in names}

    def from_scores(self, scores: dict[str, dict], parts: Sequence) -> np.ndarray:
        """Return what is said of a record, in the order of the labels."""
        row = np.array([scores[str(index)][index] for index in range(len(parts[0]))])
        return self.labels.consistent(row[None])[0]
