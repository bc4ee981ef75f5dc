"""Right and wrong texts of dev, for the report of a run."""

import math
from collections.abc import Sequence

from core.report.report import ErrorExample, ErrorItem
from task.records import Example
from task.settings import Settings


def find_errors(
    settings: Settings, examples: Sequence[Example], predictions: Sequence[dict]
) -> list[ErrorExample]:
    """Return every example, right or wrong, for the report, from records of predictions."""
    if settings.extractor:
        return settings.extractor.find_errors(examples, predictions)
    records = {record["id"]: record for record in predictions}
    reports = []
    for example in examples:
        record = records[example.id]
        right, text = record["exact_match"], record["prediction"] or "(nothing)"
        # With the default length_power the score is a mean of logarithms over tokens.
        probability = math.exp(min(record["score"], 0))
        items = [ErrorItem("correct" if right else "invented", text, score=probability)]
        items += [ErrorItem("missed", target) for target in example.targets if not right]
        measures = {"ROUGE-L": record["rouge_l"]}
        reports.append(ErrorExample(example.id, example.source, items, measures))
    return reports
