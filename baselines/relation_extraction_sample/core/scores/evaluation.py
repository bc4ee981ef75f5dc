"""The scores of one file, and which weights of a training are scored."""

import contextlib
from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True)
class Evaluation:
    """The result of scoring one file.

    Attributes:
        scores: numbers by name; also the threshold, scores of labels, and in `beside` those of
            training records.
        predictions: records of the predictions file, in the order of the file.
        shown: a few records in words, gold and prediction.
    """

    scores: dict
    predictions: list[dict]
    shown: list[str]


class OwnWeights:
    """The weights that are scored and kept: the model's own. An extra may put averages here."""

    def scored_weights(self, model: keras.Model) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a model has the weights to score."""
        return contextlib.nullcontext()

    def add(self, model: keras.Model, step: int, score: float) -> None:
        """Note the score of the weights after a step."""

    def average(self, model: keras.Model) -> list[int]:
        """Give a model the final average of weights; return its steps, empty: no average."""
        return []


class DevScorer:
    """Score dev with the current weights; a task defines how outputs are decoded and scored.

    Args:
        predictor: runs the inference model.
        batches: of dev, without labels; its `examples` have them.
        settings: of the project.

    Raises:
        InputError: batches without labels lack what the model reads.
    """

    def __init__(self, predictor: Any, batches: Any, settings: Any) -> None:
        self.predictor, self.batches, self.settings = predictor, batches, settings
        for model in predictor.models:
            batches.check_keys(model, all_read=False)

    def score_dev(self) -> Evaluation:
        """Return the scores of dev, with the thresholds that are best for it."""
        return self.score(self.batches)

    def score(self, batches: Any, tuned: dict | None = None) -> Evaluation:
        """Return the scores of the examples of some batches.

        Args:
            batches: of the same kind as those of dev.
            tuned: scores that contain the thresholds to use; None: choose the best ones.
        """
        raise NotImplementedError
