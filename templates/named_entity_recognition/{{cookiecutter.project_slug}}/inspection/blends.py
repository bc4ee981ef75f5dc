"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from core.base.extras import need
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from task.decode import Candidates, Found, rank
from task.evaluation import evaluate, thresholds_of
from task.records import Entity, Example, read_examples
from task.settings import Settings

# What runs must share to read the same records: nothing.
READ_SETTINGS: tuple[str, ...] = ()
# Whether thresholds for some candidates are found in a moment.
TUNES_QUICKLY = True


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with gold entities."""
    return read_examples(path, settings)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score candidates with the thresholds in `tuned`; None: with the best ones."""
    return evaluate(examples, candidates, path, runs.settings, thresholds_of(tuned))


def blend_record(parts: Sequence[Found], weights: Sequence[float]) -> Found:
    """Return the entities of several runs in one record with their mean probabilities."""
    means = need("blends").mean_scores([dict(part.ranked) for part in parts], weights)
    return rank(means, parts[0].flat)


class Stacking:
    """What a stack (extras/blends) asks of the task.

    Args:
        saved: the content of labels.json.
    """

    def __init__(self, saved: dict) -> None:
        self.kind = "each"

    def scores_of(self, part: Found) -> dict[str, dict]:
        """Return the probabilities of the entities of a record."""
        return {"entities": dict(part.ranked)}

    def gold_of(self, example: Example, names: Iterable[Entity]) -> dict[Hashable, float]:
        """Return 1 for each entity that is gold, else 0."""
        gold = set(example.entities)
        return {name: float(name in gold) for name in names}

    def from_scores(self, scores: dict[str, dict], parts: Sequence[Found]) -> Found:
        """Return the entities of a record with new probabilities."""
        return rank(scores["entities"], parts[0].flat)
