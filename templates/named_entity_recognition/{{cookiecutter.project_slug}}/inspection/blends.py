"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Sequence
from pathlib import Path

from core.base.extras import need
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from task.data import Example, read_examples
from task.decode import Candidates, Found, rank
from task.evaluation import evaluate, thresholds_of
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
