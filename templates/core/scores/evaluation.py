"""The scores of one file, and which weights of a training are scored."""

import contextlib
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True)
class Evaluation:
    """What the metric says of one file.

    Attributes:
        scores: numbers by name; threshold, rates of labels, `beside`: scores of training records.
        predictions: records of the predictions file, in the order of the file.
        shown: a few records in words, gold beside prediction.
    """

    scores: dict
    predictions: list[dict]
    shown: list[str]


class OwnWeights:
    """Which weights are scored and kept: the model's own; an extra may offer averages of them."""

    def scored_weights(self, model: keras.Model) -> contextlib.AbstractContextManager[None]:
        """Give a model, while it is scored, the weights that are meant."""
        return contextlib.nullcontext()

    def add(self, model: keras.Model, step: int, score: float) -> None:
        """Note the score of the weights of a step."""

    def average(self, model: keras.Model) -> list[int]:
        """Give a model the last average to try; return the steps it is of, none: there is none."""
        return []


class DevScorer:
    """Scores dev with the current weights; a task defines how its outputs are decoded and scored.

    Args:
        predictor: runs the inference model.
        batches: of dev; they hold no labels, its `examples` do.
        settings: of the project.
    """

    def __init__(self, predictor: Any, batches: Any, settings: Any) -> None:
        self.predictor, self.batches, self.settings = predictor, batches, settings

    def score_dev(self) -> Evaluation:
        """Return the scores of dev, with the thresholds that are best for it."""
        return self.score(self.batches)

    def score(self, batches: Any, tuned: dict | None = None) -> Evaluation:
        """Return the scores of the examples of some batches.

        Args:
            batches: as those of dev.
            tuned: scores that hold the thresholds to use; None: choose the best ones.
        """
        raise NotImplementedError
