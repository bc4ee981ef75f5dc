"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.base.extras import need, present
from core.data.records import name_file
from core.report.report import ErrorExample, ErrorItem
from core.scores.evaluation import Evaluation
from core.scores.thresholds import best_threshold
from task.data import Example, Labels, label_targets
from task.decode import Candidates, Threshold, choose_labels, prediction_records, read_prediction
from task.metrics import score
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
    """Score the probabilities, or numbers, that were predicted for the examples of a file.

    Args:
        examples: gold.
        candidates: from `predict_probabilities`.
        labels: from `collect_targets`.
        path: where the examples were read from.
        settings: what the scores of extras/competition ask for; None: none of these.
        threshold: a label must be surer, where labels have one; None: take the one that gives the
            best F1 on these examples.
        shown: examples to put into words.
    """
    if labels.scaling:
        evaluate_numbers = need("competition", "number_evaluation").evaluate_numbers
        return evaluate_numbers(examples, candidates, labels, path, settings, threshold, shown)
    further = (
        need("competition", "label_scores") if settings and "competition" in present() else None
    )
    if threshold is None and further:
        threshold = further.tune_thresholds(examples, candidates, labels, settings)
    if threshold is None:
        threshold = tune_threshold(examples, candidates, labels)
    predictions = [choose_labels(candidates[example.id], labels, threshold) for example in examples]
    positive_scores, rest = None, {}
    if further:
        rest = further.score_labels(examples, candidates, predictions, labels, settings)
    if labels.positive is not None:
        index = labels.names.index(labels.positive)
        positive_scores = np.array([candidates[example.id][index] for example in examples])
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            **in_scores(threshold),
            **rest,
            **score(examples, predictions, positive_scores, labels),
        },
        predictions=prediction_records(examples, candidates, labels, threshold),
        shown=[
            describe(example, predicted)
            for example, predicted in zip(examples[:shown], predictions, strict=False)
        ],
    )


def in_scores(threshold: Threshold) -> dict:
    """Return thresholds as scores.json holds them; the one of several is their mean."""
    if not isinstance(threshold, dict):
        return {"threshold": threshold}
    return {"threshold": float(np.mean([*threshold.values()])), "thresholds": threshold}


def tune_threshold(examples: Sequence[Example], candidates: Candidates, labels: Labels) -> float:
    """Return the threshold with the best F1, of the positive label or over all labels.

    0 where the likeliest label is taken, however unsure.
    """
    if not labels.has_threshold:
        return 0.0
    probabilities = np.array([candidates[example.id] for example in examples])
    hits = label_targets(examples, labels) > 0
    if labels.several:
        gold_count = sum(len(example.labels) for example in examples)
        return best_threshold(probabilities.ravel().tolist(), hits.ravel().tolist(), gold_count)
    index = labels.names.index(labels.positive)
    probabilities, hits = probabilities[:, index], hits[:, index]
    return best_threshold(probabilities.tolist(), hits.tolist(), int(hits.sum()))


def describe(example: Example, predicted: Sequence[str]) -> str:
    """Return a text with its gold labels beside the predicted ones."""
    gold, found = (", ".join(sorted(labels)) or "none" for labels in (example.labels, predicted))
    return f"{example.line_of_text}\n  gold:      {gold}\n  predicted: {found}\n"


def find_errors(
    examples: Sequence[Example], predictions: Sequence[dict], labels: Labels
) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    if examples[0].numbers:
        return need("competition", "number_evaluation").find_number_errors(examples, predictions)
    records = {record["id"]: record for record in predictions}
    asked = (labels.positive,) if labels.positive is not None else labels.names
    reports = []
    for example in examples:
        record, sure = records[example.id], records[example.id]["probabilities"]
        found, gold = set(read_prediction("dev.jsonl", record)), set(example.labels)
        kinds = {"missed": gold - found, "invented": found - gold, "correct": found & gold}
        items = [
            ErrorItem(kind, name, [], sure.get(name))
            for kind, names in kinds.items()
            for name in sorted(names)
        ]
        weighed = [(sure[name], name in gold) for name in asked]
        text, group = example.line_of_text, example.group or ""
        reports.append(ErrorExample(example.id, text, items, candidates=weighed, group=group))
    return reports
