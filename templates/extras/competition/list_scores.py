"""Scores of lists: how the candidates of each group are ranked by their scores.

Groups without a relevant candidate are left out. Of equal scores the less relevant are ranked
first, so the order of the file gains nothing; NDCG takes the mean over all their orders.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.errors import InputError
from core.base.words import excerpt
from core.report.report import ErrorExample, ErrorItem
from extras.competition.rankings import (
    average_precision_of_groups,
    ndcg_of_groups,
    number_groups,
)

DIGITS = 7  # as many as those of the scores
# Setting -> the score that decides; higher is better.
LIST_METRICS = {
    **{name: name for name in ("accuracy", "map", "mrr", "map_at_k", "ndcg", "ndcg_at_k")},
    "log_loss": "neg_log_loss",
}


def choose_list_metric(metric: str, examples: Sequence[Any]) -> str:
    """Return the deciding score; `auto` is NDCG of grades, MAP of several right ones, or accuracy.

    Args:
        metric: the setting.
        examples: those that are scored.

    Raises:
        InputError: lists have no such score, or the records have no groups.
    """
    if examples[0].group is None:
        raise InputError(
            "the records to score have no group, and a list is scored by how its records are "
            "ranked: give dev_file the columns of train_file."
        )
    if metric == "auto":
        relevance = np.array([example.numbers[0] for example in examples])
        counts = np.bincount(number_groups([e.group for e in examples]), relevance > 0)
        metric = "map" if counts.max() > 1 else "accuracy"
        metric = "ndcg" if not np.isin(relevance, (0, 1)).all() else metric
    if metric not in LIST_METRICS:
        choices = ", ".join(["auto", *LIST_METRICS])
        raise InputError(
            f'metric = {metric!r} is not of lists, which loss = "listwise" learns: choose one of '
            f"{choices}."
        )
    return LIST_METRICS[metric]


def values_of_groups(
    metric: str, relevance: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], k: int
) -> np.ndarray:
    """Return a score of each group with a relevant record.

    Args:
        metric: one of the values of `LIST_METRICS`.
        relevance: `[records]`, none below 0.
        scores: `[records]`, the highest is ranked first.
        groups: of the records.
        k: ranks that count in `map_at_k` and `ndcg_at_k`.
    """
    given = relevance, scores, groups
    if metric.startswith("ndcg"):
        values = ndcg_of_groups(*given, k if metric == "ndcg_at_k" else None)
    elif metric.startswith("map"):
        most = k if metric == "map_at_k" else len(scores)
        values = average_precision_of_groups(relevance > 0, scores, groups, most)
    elif metric == "neg_log_loss":
        values = negative_cross_entropy(*given)
    else:
        ranks = first_ranks(*given, best=metric == "accuracy")
        values = (ranks == 1) * 1.0 if metric == "accuracy" else 1 / ranks
    number = number_groups(groups)
    return values[np.bincount(number, relevance > 0) > 0]


def first_ranks(
    relevance: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], best: bool
) -> np.ndarray:
    """Return the rank `[groups]` of the first relevant record, or of one of the most relevant.

    Args:
        relevance: as in `values_of_groups`, and so are `scores` and `groups`.
        best: only the most relevant records of a group count.
    """
    number = number_groups(groups)
    most = np.zeros(number.max() + 1)
    np.maximum.at(most, number, relevance)
    wanted = relevance == most[number] if best else relevance > 0
    order = np.lexsort((wanted, -scores, number))
    sizes = np.bincount(number)
    ranks = np.arange(len(number)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    first = np.full(len(sizes), np.inf)
    np.minimum.at(first, number[order], np.where(wanted[order], ranks, np.inf))
    return first


def log_shares(scores: np.ndarray, groups: Sequence[str | None]) -> np.ndarray:
    """Return the logarithm of the softmax of the scores within each group, `[records]`."""
    number = number_groups(groups)
    highest = np.full(number.max() + 1, -np.inf)
    np.maximum.at(highest, number, scores)
    shifted = scores - highest[number]
    return shifted - np.log(np.bincount(number, np.exp(shifted)))[number]


def negative_cross_entropy(
    relevance: np.ndarray, scores: np.ndarray, groups: Sequence[str | None]
) -> np.ndarray:
    """Return minus the cross-entropy `[groups]` of the softmax with the shares of the relevance."""
    number = number_groups(groups)
    total = np.bincount(number, relevance)
    sums = np.bincount(number, relevance * log_shares(scores, groups))
    return sums / np.where(total > 0, total, 1)


def score_lists(
    gold: np.ndarray, predicted: np.ndarray, groups: Sequence[str | None], k: int
) -> dict[str, Any]:
    """Return every score of lists; 0 where no group has a relevant record.

    Args:
        gold: relevance `[records]`.
        predicted: scores `[records]`.
        groups: of the records; none: there is nothing to rank.
        k: ranks that count in `map_at_k` and `ndcg_at_k`.
    """
    if groups[0] is None:
        return {}
    scores: dict[str, Any] = {}
    for name in LIST_METRICS.values():
        values = values_of_groups(name, gold, predicted, groups, k)
        scores[name] = float(values.mean()) if values.size else 0.0
    scores["log_loss"] = -scores["neg_log_loss"]
    return {**scores, "ranked_groups": int(values.size)}


def add_probabilities(
    records: Sequence[dict], examples: Sequence[Any], scores: np.ndarray
) -> list[dict]:
    """Return records with group, choice, and the probability that a record is the right one.

    The probabilities of a group sum to 1. Records without a group have none.

    Args:
        records: of the predictions file.
        examples: of the records.
        scores: `[records]`.
    """
    if examples[0].group is None:
        return list(records)
    shares = np.exp(log_shares(scores, [example.group for example in examples]))
    return [
        {
            "id": record["id"],
            "group": example.group,
            **({"choice": example.choice} if example.choice else {}),
            **record,
            "probability": float(f"{share:.{DIGITS}g}"),
        }
        for record, example, share in zip(records, examples, shares, strict=True)
    ]


def find_list_errors(examples: Sequence[Any], predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return each candidate for the report: the best of a group is found, rightly or not."""
    records = {record["id"]: record for record in predictions}
    best: dict[str, float] = {}
    for record in predictions:
        best[record["group"]] = max(best.get(record["group"], 0.0), record["probability"])
    reports = []
    for example in examples:
        share = records[example.id]["probability"]
        found, right = share == best[example.group], bool(example.numbers[0] > 0)
        kinds = {(True, True): "correct", (True, False): "invented", (False, True): "missed"}
        kind = kinds.get((found, right))
        items = [ErrorItem(kind, example.choice or "relevant", [], share)] if kind else []
        reports.append(
            ErrorExample(
                example.id,
                example.line_of_text,
                items,
                candidates=[(share, right)],
                group=example.group,
            )
        )
    return reports


def describe_candidate(example: Any, predicted: np.ndarray) -> str:
    """Return a candidate with its relevance and its score."""
    text = " ‖ ".join(map(excerpt, example.texts))
    return f"{text}\n  relevance: {example.numbers[0]:g}\n  score:     {predicted[0]:.4g}\n"
