"""Score predictions, and show some of them as text."""

from collections.abc import Sequence
from pathlib import Path

from core.base.files import project_path
from core.data.records import name_file
from core.scores.evaluation import DevScorer, Evaluation
from task.data import TripleGenerator
from task.decode import Candidates, above, predict_triples
from task.metrics import score, tune_threshold
from task.records import Example, describe, prediction_records


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates of all examples of a file.

    Args:
        examples: read from `path`, with their gold triples.
        candidates: from `predict_triples`.
        threshold: a triple must score above it; None: the best one for these examples.
        shown: how many examples to show as text.
    """
    tuned = tune_threshold(examples, candidates) if threshold is None else {"threshold": threshold}
    predictions = above(candidates, tuned["threshold"])
    triples = {key: [triple for triple, _ in scored] for key, scored in predictions.items()}
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, triples)},
        predictions=prediction_records(examples, predictions),
        shown=[describe(example, triples[example.id]) for example in examples[:shown]],
    )


class TripleScorer(DevScorer):
    """Scores dev with the current weights of a training."""

    def score(self, batches: TripleGenerator, tuned: dict | None = None) -> Evaluation:
        """Score batches with the threshold in `tuned` (only extras pass it), or with the best."""
        candidates = predict_triples(self.predictor, batches)
        path, threshold = project_path(self.settings.dev_file), (tuned or {}).get("threshold")
        return evaluate(batches.examples, candidates, path, threshold, self.settings.shown_examples)
