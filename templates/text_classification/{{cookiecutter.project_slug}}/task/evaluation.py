"""Score predictions, and show some of them as text."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.base.extras import need
from core.base.files import project_path
from core.data.records import name_file
from core.scores.evaluation import DevScorer, Evaluation
from core.scores.thresholds import best_threshold
from library.predictions import describe, prediction_records
from library.saved_thresholds import threshold_of, threshold_scores
from task.data import ExampleGenerator
from task.decode import Candidates, Threshold, choose_labels, predict_probabilities
from task.metrics import score
from task.records import Example, Labels
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    labels: Labels,
    path: Path,
    settings: Settings | None = None,
    threshold: Threshold | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the model's outputs for all examples of a file.

    Args:
        examples: read from `path`, with their gold labels.
        candidates: from `predict_probabilities`.
        labels: from `collect_targets`.
        settings: the `[competition]` table may add scores and thresholds.
        threshold: a label is chosen if its probability is above it. None: tune it on these
            examples, as training does after each epoch; scores.json keeps the best epoch's.
        shown: how many examples to show as text.
    """
    if labels.are_numbers:
        evaluate_numbers = need("competition", "number_evaluation").evaluate_numbers
        return evaluate_numbers(examples, candidates, labels, path, settings, threshold, shown)
    table = getattr(settings, "competition", None)  # of config.toml, for extras/competition
    extra = need("competition", "label_scores") if table else None
    if threshold is None and extra:
        # It returns None unless thresholds are per label, or the metric is f_beta.
        threshold = extra.tune_thresholds(examples, candidates, labels, settings)
    if threshold is None:
        threshold = tune_threshold(examples, candidates, labels)
    chosen = [choose_labels(candidates[example.id], labels, threshold) for example in examples]
    scores_of_extra = {}
    if extra:
        scores_of_extra = extra.score_labels(examples, candidates, chosen, labels, settings)
    positive_scores = None
    if labels.positive is not None:
        index = labels.names.index(labels.positive)
        positive_scores = np.array([candidates[example.id][index] for example in examples])
    return Evaluation(
        scores={
            **name_file(path),  # `file` and `data_hash`
            "records": len(examples),
            **threshold_scores(threshold),
            **scores_of_extra,
            **score(examples, chosen, positive_scores, labels),
        },
        predictions=prediction_records(examples, candidates, labels, threshold),
        shown=[
            describe(example, names)
            for example, names in zip(examples[:shown], chosen[:shown], strict=True)
        ],
    )


class LabelScorer(DevScorer):
    """Scores dev with the current weights of a training."""

    def score(self, batches: ExampleGenerator, tuned: dict | None = None) -> Evaluation:
        """Score batches by the threshold in the scores `tuned` (of extras), or by the best one."""
        return evaluate(
            batches.examples,
            predict_probabilities(self.predictor, batches),
            batches.labels,
            project_path(self.settings.dev_file),
            self.settings,
            threshold_of(tuned) if tuned else None,
            self.settings.shown_examples,
        )


def tune_threshold(examples: Sequence[Example], candidates: Candidates, labels: Labels) -> float:
    """Return the threshold with the best F1, of the positive label or over all labels.

    0 where the most likely label is taken, whatever its probability.
    """
    if not labels.has_threshold:
        return 0.0
    probabilities = np.array([candidates[example.id] for example in examples])
    hits = labels.hits(examples)
    if labels.several:
        gold_count = sum(len(one.labels) for one in examples)  # also labels that training lacks
        return best_threshold(probabilities.ravel().tolist(), hits.ravel().tolist(), gold_count)
    index = labels.names.index(labels.positive)
    probabilities, hits = probabilities[:, index], hits[:, index]
    return best_threshold(probabilities.tolist(), hits.tolist(), int(hits.sum()))
