"""What a blend of runs (extras/blends) asks of the task."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import numpy as np

from core.base.extras import need
from core.data.records import Span
from core.prediction.loading import TrainedRuns
from core.scores.evaluation import Evaluation
from task.decode import MOST_SPANS, Candidate, Candidates
from task.evaluation import evaluate
from task.records import Example, read_examples
from task.settings import Settings

# Limit of log-odds, reached if all runs are certain that an answer is right, or that none is.
MOST_ODDS = 700.0
# What runs must share to read the same records: nothing.
READ_SETTINGS: tuple[str, ...] = ()
# Whether thresholds for some candidates are found in a moment.
TUNES_QUICKLY = True


def read_gold(path: Path, settings: Settings) -> Sequence[Example]:
    """Return the examples of a file with gold answers."""
    return read_examples(path)


def score_blend(
    runs: TrainedRuns,
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    tuned: dict | None,
) -> Evaluation:
    """Score candidates with the threshold in `tuned`; None: with the best one."""
    threshold = (tuned or {}).get("threshold")
    return evaluate(examples, candidates, path, runs.settings, threshold)


def blend_record(parts: Sequence[Sequence[Candidate]], weights: Sequence[float]) -> list[Candidate]:
    """Return the answers of several runs to one question, best first.

    Their probabilities are averaged, and so is that of "no answer"; the quotient of both means
    gives the odds.
    """
    means = need("blends").mean_scores([probabilities(part) for part in parts], weights)
    none = means.pop(None)
    odds = {
        span: float(np.clip(np.log(share / none), -MOST_ODDS, MOST_ODDS))
        for span, share in means.items()
        if share > 0
    }
    ranked = sorted(odds.items(), key=lambda item: (-item[1], item[0]))
    return [Candidate(span, value) for span, value in ranked[:MOST_SPANS]]


def probabilities(candidates: Sequence[Candidate]) -> dict[Span | None, float]:
    """Return the probability of each answer of a run, and of none: a softmax of the odds."""
    spans: list[Span | None] = [None, *(candidate.span for candidate in candidates)]
    odds = np.array([0.0, *(candidate.log_odds for candidate in candidates)])
    shares = np.exp(odds - odds.max())
    # The smallest number instead of 0, so that the odds of the mean are known.
    shares = np.maximum(shares / shares.sum(), np.finfo(float).tiny)
    return dict(zip(spans, shares.tolist(), strict=True))


class Stacking:
    """What a stack (extras/blends) asks of the task.

    Args:
        saved: the content of labels.json.
    """

    def __init__(self, saved: dict) -> None:
        self.kind = "each"

    def scores_of(self, part: Sequence[Candidate]) -> dict[str, dict]:
        """Return the probabilities of the answers to a question, and of none."""
        shares = probabilities(part)
        return {"none": {None: shares.pop(None)}, "answers": shares}

    def gold_of(self, example: Example, names: Iterable[Span | None]) -> dict[Hashable, float]:
        """Return 1 for each answer whose text is a gold one, else 0."""
        gold = set(example.gold_texts)

        def is_right(name: Span | None) -> bool:
            return not gold if name is None else example.context[slice(*name)] in gold

        return {name: float(is_right(name)) for name in names}

    def from_scores(self, scores: dict[str, dict], parts: Sequence) -> list[Candidate]:
        """Return the answers to a question, best first, with their odds against "no answer"."""
        none, shares = scores["none"][None], scores["answers"]
        smallest = np.finfo(float).tiny
        odds = {span: np.log(max(share, smallest) / none) for span, share in shares.items()}
        ranked = sorted(odds.items(), key=lambda item: (-item[1], item[0]))
        return [Candidate(span, float(value)) for span, value in ranked[:MOST_SPANS]]
