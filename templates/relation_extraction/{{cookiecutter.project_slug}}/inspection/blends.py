"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from core.base.extras import need
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from task.decode import Candidates
from task.evaluation import evaluate
from task.records import Example, Triple, read_examples
from task.settings import Settings

# What runs must share to read the same records: nothing.
READ_SETTINGS: tuple[str, ...] = ()
# Whether thresholds for some candidates are found in a moment.
TUNES_QUICKLY = True


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with gold triples."""
    return read_examples(path)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score candidates with the threshold in `tuned`; None: with the best one."""
    return evaluate(examples, candidates, path, (tuned or {}).get("threshold"))


def blend_record(
    parts: Sequence[list[tuple[Triple, float]]], weights: Sequence[float]
) -> list[tuple[Triple, float]]:
    """Return the triples of several runs in one record with their mean probabilities."""
    means = need("blends").mean_scores([dict(part) for part in parts], weights)
    return sorted(means.items(), key=lambda candidate: (-candidate[1], candidate[0]))


class Stacking:
    """What a stack (extras/blends) asks of the task.

    Args:
        saved: the content of labels.json.
    """

    def __init__(self, saved: dict) -> None:
        self.kind = "each"

    def scores_of(self, part: list[tuple[Triple, float]]) -> dict[str, dict]:
        """Return the probabilities of the triples of a record."""
        return {"triples": dict(part)}

    def gold_of(self, example: Example, names: Iterable[Triple]) -> dict[Hashable, float]:
        """Return 1 for each triple that is gold, else 0; of predicates that were annotated."""
        gold, annotated = set(example.triples), example.annotated_predicates
        return {
            name: float(name in gold)
            for name in names
            if annotated is None or name.predicate in annotated
        }

    def from_scores(
        self, scores: dict[str, dict], parts: Sequence[list]
    ) -> list[tuple[Triple, float]]:
        """Return the triples of a record with new probabilities."""
        return sorted(scores["triples"].items(), key=lambda pair: (-pair[1], pair[0]))
