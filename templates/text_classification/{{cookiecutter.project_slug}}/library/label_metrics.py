"""F1 of each label, macro F1, Matthews correlation, average precision and reciprocal rank."""

from collections.abc import Sequence

import numpy as np

from core.base.errors import InputError
from core.scores.precision_recall import precision_recall_f1
from task.records import Example, Labels

RANKING_METRICS = ("map", "mrr")


def check_metric(metric: str, labels: Labels, ranked: bool) -> None:
    """Refuse a metric that the data don't have.

    Args:
        metric: the setting.
        labels: from `collect_targets`.
        ranked: whether records have groups, and labels a positive one.

    Raises:
        InputError: says what the metric needs.
    """
    lacking = ""
    if metric in RANKING_METRICS and not ranked:
        lacking = 'records with a "group"'
    elif metric == "f1" and not labels.positive:
        lacking = f"a positive_label, such as {labels.names[-1]!r}"
    elif metric == "matthews" and labels.several:
        lacking = "one label a record"
    if lacking:
        raise InputError(f"metric = {metric!r} needs {lacking}: give it, or set metric = 'auto'.")


def all_names(golds: Sequence[Sequence[str]], labels: Sequence[str]) -> list[str]:
    """Return the labels of the model and those that only the gold has, sorted."""
    return sorted({name for gold in golds for name in gold} | set(labels))


def count_matches(
    golds: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]], names: Sequence[str]
) -> np.ndarray:
    """Count `(correct, predicted, gold)` of each label in each record, `[records, labels, 3]`.

    Args:
        golds: the labels of each record.
        predictions: the predicted labels of each.
        names: of all labels that occur in either.
    """
    number_of = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(golds), len(names), 3), np.int32)
    for row, gold, predicted in zip(counts, golds, predictions, strict=True):
        row[[number_of[name] for name in set(gold) & set(predicted)], 0] = 1
        row[[number_of[name] for name in predicted], 1] = 1
        row[[number_of[name] for name in gold], 2] = 1
    return counts


def label_scores(counts: np.ndarray, names: Sequence[str]) -> dict[str, dict]:
    """Return label -> precision, recall and F1, of the labels that occur in gold or predictions.

    Args:
        counts: from `count_matches`.
        names: of the labels.
    """
    totals = zip(names, counts.sum(axis=0), strict=True)
    return {name: precision_recall_f1(*row) for name, row in totals if row.any()}


def macro_f1(counts: np.ndarray) -> np.ndarray:
    """Return the mean F1 of the labels that occur in gold or predictions.

    Args:
        counts: `(correct, predicted, gold)` of each label, `[..., labels, 3]`.
    """
    both = counts[..., 1] + counts[..., 2]
    f1 = 2 * counts[..., 0] / np.maximum(both, 1)
    return f1.sum(-1) / np.maximum((both > 0).sum(-1), 1)


def matthews(counts: np.ndarray) -> np.ndarray:
    """Return the correlation of gold and predicted labels, one of each a record; 0 if undefined.

    R_K = (c s - sum_k p_k g_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k g_k^2)): c of s records are
    right, label k is predicted p_k times and gold g_k times. For two labels it is Matthews' own.
    Source: Gorodkin 2004, https://doi.org/10.1016/j.compbiolchem.2004.09.006.

    Args:
        counts: `(correct, predicted, gold)` of each label, `[..., labels, 3]`.
    """
    correct, predicted, gold = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    total = gold.sum(-1)
    above = correct.sum(-1) * total - (predicted * gold).sum(-1)
    below = np.sqrt(
        (total**2 - (predicted**2).sum(-1)) * np.maximum(total**2 - (gold**2).sum(-1), 0)
    )
    return np.where(below > 0, above / np.where(below > 0, below, 1), 0.0)


def score_ranking(relevant: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return average precision and reciprocal rank of one group that has a relevant record.

    Of equal scores the irrelevant ones are ranked first, so the order of the file gains nothing.

    Args:
        relevant: `[records]` of booleans.
        scores: `[records]`, the highest is ranked first.
    """
    order = np.lexsort((relevant, -scores))
    ranks = np.flatnonzero(relevant[order]) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)), float(1 / ranks[0])


def score_rankings(
    examples: Sequence[Example], scores: np.ndarray, positive: str | None
) -> dict[str | None, tuple[float, float]]:
    """Return group -> average precision and reciprocal rank, of groups with a positive record.

    Args:
        examples: gold.
        scores: `[examples]`, of the positive label.
        positive: the label that should be ranked first.
    """
    groups: dict[str | None, list[int]] = {}
    for position, example in enumerate(examples):
        groups.setdefault(example.group, []).append(position)
    relevant = np.array([positive in example.labels for example in examples])
    return {
        group: score_ranking(relevant[members], np.asarray(scores)[members])
        for group, members in groups.items()
        if relevant[members].any()
    }


def mean_rankings(examples: Sequence[Example], scores: np.ndarray, positive: str) -> dict:
    """Return MAP, MRR and the number of ranked groups; arguments as in `score_rankings`."""
    rankings = list(score_rankings(examples, scores, positive).values())
    means = np.mean(rankings, axis=0) if rankings else np.zeros(len(RANKING_METRICS))
    named = dict(zip(RANKING_METRICS, means.tolist(), strict=True))
    return {**named, "ranked_groups": len(rankings)}
