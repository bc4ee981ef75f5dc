"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

from core.base.extras import need
from core.data.records import Id
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from library.graph import Graph
from task.evaluation import evaluate
from task.records import Example, read_examples
from task.settings import Settings

# What runs must share to read the same records: nothing.
READ_SETTINGS: tuple[str, ...] = ()
# Whether thresholds for some candidates are found in a moment: events are built for each one.
TUNES_QUICKLY = False


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with gold events."""
    return read_examples(path)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: dict[Id, Graph],
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score graphs with the threshold in `tuned`; None: with the best one."""
    threshold = (tuned or {}).get("threshold")
    return evaluate(examples, candidates, path, runs.settings.metric, threshold)


def blend_record(parts: Sequence[Graph], weights: Sequence[float]) -> Graph:
    """Return the mentions and links of several runs in one record with their mean probabilities."""
    mean_scores = need("blends").mean_scores
    mentions = mean_scores([part.mentions for part in parts], weights)
    links = mean_scores([part.links for part in parts], weights)
    return Graph(mentions, links, frozenset.union(*(part.triggered for part in parts)))


class Stacking:
    """What a stack (extras/blends) asks of the task.

    Args:
        saved: the content of labels.json.
    """

    def __init__(self, saved: dict) -> None:
        self.kind = "each"

    def scores_of(self, part: Graph) -> dict[str, dict]:
        """Return the probabilities of the mentions and links of a record."""
        return {"mentions": part.mentions, "links": part.links}

    def gold_of(self, example: Example, names: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return 1 for each mention and link of a gold event, else 0."""
        gold: set[Hashable] = set()
        for event in example.events:
            gold |= {(event.type, role, span) for role, span in event.nodes()}
            spans = sorted(span for _, span in event.nodes())
            gold |= {(event.type, *pair) for pair in combinations_with_replacement(spans, 2)}
        return {name: float(name in gold) for name in names}

    def from_scores(self, scores: dict[str, dict], parts: Sequence[Graph]) -> Graph:
        """Return the mentions and links of a record with new probabilities."""
        triggered = frozenset.union(*(part.triggered for part in parts))
        return Graph(scores["mentions"], scores["links"], triggered)
