"""Score what was predicted, and say it in words."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from common.callbacks import Evaluation
from common.records import name_file
from common.report import ErrorExample, ErrorItem
from task.data import Example, Labels
from task.decode import Candidates, choose_labels, prediction_records
from task.metrics import best_threshold, score


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    labels: Labels,
    path: Path,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the probabilities that were predicted for the examples of a file.

    Args:
        examples: gold.
        candidates: from `predict_probabilities`.
        labels: from `collect_labels`.
        path: where the examples were read from.
        threshold: a label must be surer, where labels have one; None: take the one that gives the
            best F1 on these examples.
        shown: examples to put into words.
    """
    if threshold is None:
        threshold = tune_threshold(examples, candidates, labels)
    predictions = [choose_labels(candidates[example.id], labels, threshold) for example in examples]
    positive_scores = None
    if labels.positive is not None:
        index = labels.names.index(labels.positive)
        positive_scores = np.array([candidates[example.id][index] for example in examples])
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            "threshold": threshold,
            **score(examples, predictions, positive_scores, labels),
        },
        predictions=prediction_records(examples, candidates, labels, threshold),
        shown=[
            describe(example, predicted)
            for example, predicted in zip(examples[:shown], predictions, strict=False)
        ],
    )


def tune_threshold(examples: Sequence[Example], candidates: Candidates, labels: Labels) -> float:
    """Return the threshold with the best F1, of the positive label or over all labels.

    0 where the likeliest label is taken, however unsure.
    """
    if not labels.has_threshold:
        return 0.0
    probabilities = np.array([candidates[example.id] for example in examples])
    hits = np.array([[name in example.labels for name in labels.names] for example in examples])
    if not labels.several:
        index = labels.names.index(labels.positive)
        probabilities, hits = probabilities[:, index], hits[:, index]
        return best_threshold(probabilities, hits, int(hits.sum()))
    gold_count = sum(len(example.labels) for example in examples)
    return best_threshold(probabilities.ravel(), hits.ravel(), gold_count)


def describe(example: Example, predicted: Sequence[str]) -> str:
    """Return a text with its gold labels beside the predicted ones."""
    gold, found = (", ".join(sorted(labels)) or "none" for labels in (example.labels, predicted))
    return f"{joined_text(example)}\n  gold:      {gold}\n  predicted: {found}\n"


def joined_text(example: Example) -> str:
    """Return the text, or both texts of a pair on one line."""
    return " ‖ ".join(example.texts)


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example with an error, for the report.

    Args:
        examples: gold.
        predictions: records of the predictions file.
    """
    predicted = {record["id"]: record for record in predictions}
    reports = []
    for example in examples:
        record = predicted[example.id]
        found = record.get("labels", [record["label"]] if "label" in record else [])
        items = [
            ErrorItem(kind, name, [], record["probabilities"].get(name))
            for kind, names in (
                ("missed", sorted(set(example.labels) - set(found))),
                ("invented", sorted(set(found) - set(example.labels))),
                ("correct", sorted(set(found) & set(example.labels))),
            )
            for name in names
        ]
        if any(item.kind != "correct" for item in items):
            reports.append(ErrorExample(example.id, joined_text(example), items))
    return reports
