"""Score what was written, and say it in words."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from core.data.records import Id, name_file
from core.report.report import ErrorExample, ErrorItem
from core.scores.evaluation import Evaluation
from generation.texts import Written
from task.data import Example
from task.decode import prediction_records
from task.metrics import score, score_records
from task.settings import Settings


def evaluate(
    examples: Sequence[Example],
    predictions: dict[Id, Written],
    path: Path,
    settings: Settings,
    shown: int = 0,
) -> Evaluation:
    """Score the texts that were written for the examples of a file.

    Args:
        examples: gold.
        predictions: from `predict_texts`.
        path: where the examples were read from.
        settings: `bleu_tokenizer`, `lowercase_scores`.
        shown: examples to put into words.
    """
    if settings.extractor:
        return settings.extractor.evaluate(examples, predictions, path, shown)
    texts = {name: text for name, (text, *_) in predictions.items()}
    records = score_records(examples, texts, settings)
    rows = zip(prediction_records(examples, predictions), records, strict=True)
    return Evaluation(
        scores={
            **name_file(path),
            "records": len(examples),
            **score(examples, texts, records, settings),
        },
        predictions=[written | asdict(scores) for written, scores in rows],
        shown=[describe(example, texts[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: str, most: int = 3) -> str:
    """Return a source with its targets, `most` of them, beside the prediction."""
    lines = [example.source]
    lines += [f"  gold:      {target}" for target in example.targets[:most]]
    return "\n".join([*lines, f"  predicted: {predicted}\n"])


def find_errors(examples: Sequence[Example], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    records = {record["id"]: record for record in predictions}
    reports = []
    for example in examples:
        record = records[example.id]
        right, text = record["exact_match"], record["prediction"] or "(nothing)"
        # The score is a mean of logarithms over tokens.
        sure = math.exp(min(record["score"], 0))
        items = [ErrorItem("correct" if right else "invented", text, score=sure)]
        items += [ErrorItem("missed", target) for target in example.targets if not right]
        measures = {"ROUGE-L": record["rouge_l"]}
        reports.append(ErrorExample(example.id, example.source, items, measures))
    return reports
