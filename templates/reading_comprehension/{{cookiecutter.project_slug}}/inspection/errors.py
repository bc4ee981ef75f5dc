"""Right and wrong answers of dev, for the report of a run."""

import re
from collections.abc import Sequence

from core.report.report import ErrorExample, ErrorItem
from task.metrics import choose_scorer
from task.records import Example

QUESTION_WORDS = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how (?:many|much)|how)\b"
    r"|为什么|什么时候|什么|多少|怎么|怎样|如何|何时|谁|哪|几"
)


def find_errors(
    examples: Sequence[Example], predictions: Sequence[dict], metric: str
) -> list[ErrorExample]:
    """Return every question, answered right or wrong, for the report.

    Args:
        examples: gold.
        predictions: records of the predictions file.
        metric: of the settings.
    """
    _, scorer = choose_scorer(metric, examples)
    records = {record["id"]: record for record in predictions}
    reports = []
    for example in examples:
        record, golds = records[example.id], dict.fromkeys(example.gold_texts)
        exact, f1 = scorer(example.gold_texts, record["text"])
        right = [bool(scorer(example.gold_texts, best["text"])[0]) for best in record["n_best"]]
        ranks = [right.index(True) + 1 if any(right) else 0] if golds else []
        items = []
        if golds and not exact:
            spans = [(*span, "") for span in dict.fromkeys(example.answers)]
            # An answer that is not in the passage word for word is spelled out.
            label = example.question if spans else f"{example.question} {' | '.join(golds)}"
            items.append(ErrorItem("missed", label, spans))
        if record["answer"]:
            kind, span = "correct" if exact else "invented", (*record["answer"], "")
            score = record["n_best"][0]["probability"]
            items.append(ErrorItem(kind, example.question, [span], score))
        asked = (QUESTION_WORDS.search(example.question.lower()) or ["other"])[0]
        measures = {"F1": f1, "exact match": exact}
        reports.append(ErrorExample(example.id, example.context, items, measures, asked, ranks))
    return reports
