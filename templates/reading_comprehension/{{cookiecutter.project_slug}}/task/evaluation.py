"""Score predictions, and show some of them as text."""

from collections.abc import Sequence
from pathlib import Path

from core.base.files import project_path
from core.base.words import excerpt
from core.data.records import name_file
from core.prediction.predictor import Predictor
from core.scores.evaluation import DevScorer, Evaluation
from formats.records import prediction_records
from task.data import AnswerGenerator
from task.decode import Candidates, predict_answers
from task.metrics import best_threshold, score
from task.records import Example
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    settings: Settings,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates of all examples of a file.

    Args:
        examples: read from `path`, with their gold.
        candidates: from `predict_answers`.
        path: named in the scores.
        settings: `metric`, `n_best`.
        threshold: an answer with a lower score is not given; None: the best threshold for these
            examples.
        shown: how many examples to show as text.
    """
    tuned: dict = {"threshold": threshold}
    if threshold is None:
        best = {
            example.id: (example.context[slice(*top.span)], top.score)
            for example in examples
            for top in candidates[example.id][:1]
        }
        tuned = best_threshold(examples, best, settings.metric)
    # An answer that scores below the threshold becomes "".
    records = prediction_records(examples, candidates, tuned["threshold"], settings.n_best)
    texts = {record["id"]: record["text"] for record in records}
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, texts, settings.metric)},
        predictions=records,
        shown=[describe(example, texts[example.id]) for example in examples[:shown]],
    )


class AnswerScorer(DevScorer):
    """Scores dev with the current weights of a training.

    Args:
        lengths: as in `predict_answers`; others as in `DevScorer`.
    """

    def __init__(
        self,
        predictor: Predictor,
        batches: AnswerGenerator,
        settings: Settings,
        lengths: Sequence[float] | None,
    ) -> None:
        super().__init__(predictor, batches, settings)
        self.lengths = lengths

    def score(self, batches: AnswerGenerator, tuned: dict | None = None) -> Evaluation:
        """Score batches with the threshold in `tuned` (only extras pass it), or with the best."""
        settings, threshold = self.settings, (tuned or {}).get("threshold")
        candidates = predict_answers(self.predictor, batches, settings, self.lengths)
        path, shown = project_path(settings.dev_file), settings.shown_examples
        return evaluate(batches.examples, candidates, path, settings, threshold, shown)


def describe(example: Example, predicted: str) -> str:
    """Return a question with its gold answers and the predicted one."""
    gold = " | ".join(map(excerpt, dict.fromkeys(example.gold_texts))) or "(no answer)"
    found = excerpt(predicted) or "(no answer)"
    return f"{excerpt(example.question)}\n  gold:      {gold}\n  predicted: {found}\n"
