"""Accuracy, F1, Matthews, and the scores of rankings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.extras import need
from core.scores.precision_recall import precision_recall_f1
from library.label_metrics import (
    RANKING_METRICS,
    all_names,
    check_metric,
    count_matches,
    label_scores,
    macro_f1,
    matthews,
    mean_rankings,
)
from task.records import Example, Labels

OWN_METRICS = ("accuracy", "macro_f1", "micro_f1", "matthews", "f1", *RANKING_METRICS)


def choose_metric(metric: str, labels: Labels, examples: Sequence[Example]) -> str:
    """Return the name of the score that chooses the best epoch.

    `auto` becomes micro F1 for several labels a record, MAP for rankings, F1 with a positive label,
    RMSE or MCRMSE for numbers, and else accuracy. Errors are negated: `log_loss` becomes
    `neg_log_loss`.

    Args:
        metric: the setting.
        labels: from `collect_targets`.
        examples: those that are scored.

    Raises:
        InputError: the data has no such score.
    """
    # A group is a query and the records that are ranked for it.
    ranked = examples[0].group is not None and labels.positive is not None
    if labels.are_numbers:
        choose = need("competition", "number_evaluation").choose_number_metric
        return choose(metric, labels, examples)
    if metric not in ("auto", *OWN_METRICS):
        return need("competition", "label_scores").choose_label_metric(metric, labels, ranked)
    if metric == "auto":
        if labels.several:
            return "micro_f1"
        if ranked:
            return "map"
        return "f1" if labels.positive else "accuracy"
    check_metric(metric, labels, ranked)
    return metric


def score(
    examples: Sequence[Example],
    predictions: Sequence[Sequence[str]],
    positive_scores: np.ndarray | None,
    labels: Labels,
) -> dict:
    """Return the scores that are defined for these data; extras/competition adds its own.

    Args:
        examples: gold.
        predictions: the labels that were predicted for each.
        positive_scores: `[examples]`, probability of the positive label; None: there is none.
        labels: from `collect_targets`.
    """
    golds = [example.labels for example in examples]
    names = all_names(golds, labels.names)
    # `[records, labels, 3]` and `[labels, 3]`: correct, predicted and gold.
    counts = count_matches(golds, predictions, names)
    totals = counts.sum(axis=0)
    right = [set(gold) == set(found) for gold, found in zip(golds, predictions, strict=True)]
    scores: dict[str, Any] = {
        "accuracy": float(np.mean(right)),
        "macro_f1": float(macro_f1(totals)),
        "micro_f1": precision_recall_f1(*totals.sum(axis=0))["f1"],
    }
    if not labels.several:
        scores["matthews"] = float(matthews(totals))
    if labels.positive is not None:
        scores["positive_label"] = labels.positive
        of_label = precision_recall_f1(*totals[names.index(labels.positive)])
        scores |= {name: of_label[name] for name in ("precision", "recall", "f1")}
        if positive_scores is not None and examples[0].group is not None:
            scores |= mean_rankings(examples, positive_scores, labels.positive)
    scores["per_label"] = label_scores(counts, names)
    return scores
