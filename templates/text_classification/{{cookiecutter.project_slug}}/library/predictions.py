"""Predictions as records of a file, and as text."""

from collections.abc import Sequence
from typing import Any

from core.base.extras import need
from core.base.words import excerpt
from task.decode import Candidates, Threshold, choose_labels
from task.records import Example, Labels


def prediction_records(
    examples: Sequence[Example], candidates: Candidates, labels: Labels, threshold: Threshold
) -> list[dict]:
    """Return the records of the predictions file.

    One label: `score` is the probability of the positive label, by which a ranking is sorted;
    without a positive label it is that of the predicted one.
    """
    if labels.are_numbers:
        number_records = need("competition", "number_evaluation").number_records
        return number_records(examples, candidates, labels, threshold)
    records = []
    for example in examples:
        probabilities = candidates[example.id].tolist()
        named = dict(zip(labels.names, probabilities, strict=True))
        chosen = choose_labels(candidates[example.id], labels, threshold)
        if labels.several:
            answer: dict[str, Any] = {"labels": list(chosen)}
        else:
            answer = {"label": chosen[0], "score": named[labels.positive or chosen[0]]}
        records.append({"id": example.id, **answer, "probabilities": named})
    return records


def describe(example: Example, predicted: Sequence[str]) -> str:
    """Return a text with its gold and its predicted labels."""
    gold, found = (", ".join(sorted(labels)) or "none" for labels in (example.labels, predicted))
    return f"{' ‖ '.join(map(excerpt, example.texts))}\n  gold:      {gold}\n  predicted: {found}\n"
