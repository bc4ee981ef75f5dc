"""Score what was predicted, and say it in words."""

import re
from collections.abc import Sequence
from pathlib import Path

from core.data.records import name_file
from core.report.report import ErrorExample, ErrorItem
from core.scores.evaluation import Evaluation
from task.data import Example
from task.decode import Candidates, prediction_records, rank_texts
from task.metrics import best_threshold, choose_scorer, score
from task.settings import Settings

QUESTION_WORDS = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how (?:many|much)|how)\b"
    r"|为什么|什么时候|什么|多少|怎么|怎样|如何|何时|谁|哪|几"
)


def evaluate(
    examples: Sequence[Example],
    candidates: Candidates,
    path: Path,
    settings: Settings,
    threshold: float | None = None,
    shown: int = 0,
) -> Evaluation:
    """Score the candidates that were predicted for the examples of a file.

    Args:
        examples: gold.
        candidates: from `predict_answers`.
        path: where the examples were read from.
        settings: `metric`, `n_best`.
        threshold: an answer that scores lower is not given; None: take the threshold that scores
            best on these examples.
        shown: examples to put into words.
    """
    tuned: dict = {"threshold": threshold}
    if threshold is None:
        best = {
            example.id: (text, candidate.score)
            for example in examples
            for candidate, text, _ in rank_texts(example.context, candidates[example.id], 1)
        }
        tuned = best_threshold(examples, best, settings.metric)
    records = prediction_records(examples, candidates, tuned["threshold"], settings.n_best)
    texts = {record["id"]: record["text"] for record in records}
    facts = {**name_file(path), "records": len(examples), **tuned}
    return Evaluation(
        scores={**facts, **score(examples, texts, settings.metric)},
        predictions=records,
        shown=[describe(example, texts[example.id]) for example in examples[:shown]],
    )


def describe(example: Example, predicted: str) -> str:
    """Return a question with its gold answers beside the predicted one."""
    gold = " | ".join(dict.fromkeys(example.gold_texts)) or "(no answer)"
    return f"{example.question}\n  gold:      {gold}\n  predicted: {predicted or '(no answer)'}\n"


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
            # What the passage does not hold word for word is spelled out.
            label = example.question if spans else f"{example.question} {' | '.join(golds)}"
            items.append(ErrorItem("missed", label, spans))
        if record["answer"]:
            kind, span = "correct" if exact else "invented", (*record["answer"], "")
            sure = record["n_best"][0]["probability"]
            items.append(ErrorItem(kind, example.question, [span], sure))
        asked = (QUESTION_WORDS.search(example.question.lower()) or ["other"])[0]
        measures = {"F1": f1, "exact match": exact}
        reports.append(ErrorExample(example.id, example.context, items, measures, asked, ranks))
    return reports
