"""Scores of probabilities and of ranked labels, and thresholds of several labels.

Where a record may have several labels, and for three labels or more, a score is the mean over the
labels, each against the rest. A label that no record has, or every one, has no ROC-AUC and no
PR-AUC. It is left out of the mean, and `labels_without_auc` names it; where no label is left,
ROC-AUC is 0.5 and PR-AUC 0. Scores of
probabilities leave out records whose gold label is not in the training file. MAP@k and top-k
accuracy leave out records that may have several labels and have none.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from core.base.errors import InputError
from extras.competition.drawn import Drawable, curve_of, mean_of
from extras.competition.matching import OPPOSITES
from extras.competition.rankings import (
    average_precision_at_k,
    average_precision_of_groups,
    ndcg_of_groups,
    ndcg_of_rows,
    top_k,
)
from extras.competition.settings import Settings, Table

# Setting -> the score that decides; higher is better.
LABEL_METRICS = {
    **{name: f"neg_{name}" for name in ("log_loss", "brier")},
    **{name: name for name in ("f_beta", "roc_auc", "pr_auc", "top_k_accuracy")},
    **{name: name for name in ("map_at_k", "ndcg", "ndcg_at_k")},
}


def choose_label_metric(metric: str, labels: Any, ranked: bool) -> str:
    """Return the deciding score.

    Args:
        metric: the setting.
        labels: from `collect_targets`.
        ranked: the records have groups, within which they are ranked.

    Raises:
        InputError: labels have no such score.
    """
    if metric not in LABEL_METRICS:
        raise InputError(
            f"metric = {metric!r} is of numbers: set output = 'number', or metric = 'auto'."
        )
    # Of two labels one is asked for; where none is named, it is the second of "no" and "yes".
    of_two = len(labels.names) == 2 and not labels.several and labels.positive is None
    opposite = tuple(name.casefold() for name in labels.names) in OPPOSITES
    if of_two and (metric == "f_beta" or metric == "pr_auc" and not opposite):
        raise InputError(
            f"metric = {metric!r} is of one of two labels: name it with positive_label, such as "
            f"{labels.names[1]!r}."
        )
    return LABEL_METRICS[metric]


def score_labels(
    examples: Sequence[Any],
    candidates: dict,
    predictions: Sequence[Sequence[str]],
    labels: Any,
    settings: Settings,
) -> dict[str, Any]:
    """Return the scores of probabilities and rankings, F-beta, and labels without ROC-AUC.

    Log loss and Brier score also come negated, as `neg_...`, which chooses the best epoch.

    Args:
        examples: gold.
        candidates: record id -> probabilities `[labels]`.
        predictions: the labels of each.
        labels: from `collect_targets`.
        settings: `k` and `beta` of the table `competition`.
    """
    gold = label_matrix([example.labels for example in examples], labels.names)
    found = label_matrix(predictions, labels.names)
    probabilities = np.array([candidates[example.id] for example in examples], np.float64)
    groups = [example.group for example in examples]
    makers = make_scores(gold, found, probabilities, groups, labels, settings.competition)
    scores = {name: make().value for name, make in makers.items()}
    negated = {f"neg_{name}": -scores[name] for name in LOSSES if name in scores}
    lacking = labels_without_auc(gold, labels) if "roc_auc" in scores else []
    return scores | negated | ({"labels_without_auc": lacking} if lacking else {})


def make_scores(
    gold: np.ndarray,
    found: np.ndarray,
    probabilities: np.ndarray,
    groups: Sequence[str | None],
    labels: Any,
    table: Table,
) -> dict[str, Callable[[], Drawable]]:
    """Return the scores of `score_labels` by name, each computed when it is called.

    Args:
        gold: `[records, labels]` of booleans; `found`: the predicted ones.
        probabilities: `[records, labels]`.
        groups: of the records.
        labels: from `collect_targets`.
        table: `k` and `beta`.
    """
    pair = gold, probabilities
    makers: dict[str, Callable[[], Drawable]] = {
        "f_beta": partial(f_beta, gold, found, labels, table.beta)
    }
    if (gold.any(axis=1) | labels.several).any():
        makers |= {name: partial(LOSSES[name], *pair, labels) for name in LOSSES}
        makers |= {name: partial(curve, name, *pair, labels) for name in CURVES}
    k = table.k
    if groups[0] is not None and labels.positive is not None:
        column = labels.names.index(labels.positive)
        ranked = gold[:, column], probabilities[:, column], groups
        makers["map_at_k"] = lambda: mean_of_known(average_precision_of_groups(*ranked, k))
        makers["ndcg"] = lambda: mean_of_known(ndcg_of_groups(*ranked))
        makers["ndcg_at_k"] = lambda: mean_of_known(ndcg_of_groups(*ranked, k))
        return makers
    # A record with several labels may have none; a single label may be new, which is wrong.
    some = np.asarray(gold.any(axis=1))
    rows = np.ones(len(gold), bool) if not labels.several else some
    return {
        **makers,
        "map_at_k": lambda: mean_of(average_precision_at_k(*pair, k), rows),
        "top_k_accuracy": lambda: mean_of(top_k_hits(*pair, k, rows), rows),
        "ndcg": lambda: mean_of(ndcg_of_rows(*pair), some),
        "ndcg_at_k": lambda: mean_of(ndcg_of_rows(*pair, k), some),
    }


def label_matrix(rows: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """Return `[records, labels]` of booleans; unknown labels have no column."""
    number = {name: index for index, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)), bool)
    for row, own in zip(matrix, rows, strict=True):
        row[[number[name] for name in own if name in number]] = True
    return matrix


def mean_of_known(values: np.ndarray) -> Drawable:
    """Return the mean of the values of groups; those without one, NaN, are left out."""
    return mean_of(values[~np.isnan(values)])


def columns_of(labels: Any) -> list[int]:
    """Return the labels that ROC-AUC, PR-AUC and Brier score average; of two only one counts."""
    if len(labels.names) == 2 and not labels.several:
        return [labels.names.index(labels.positive) if labels.positive else 1]
    return list(range(len(labels.names)))


def log_loss(gold: np.ndarray, probabilities: np.ndarray, labels: Any) -> Drawable:
    """Return the mean of -log of the probability that was given to what is right.

    Both arrays are `[records, labels]`. Of several labels it is the mean over the labels.
    """
    small = np.finfo(np.float64).eps
    if labels.several:
        given = np.where(gold, probabilities, 1 - probabilities)
        return mean_of(-np.log(given.clip(small, 1 - small)).mean(axis=1))
    # Rounded probabilities may not sum to 1.
    whole = (probabilities / probabilities.sum(axis=1, keepdims=True)).clip(small, 1 - small)
    own = np.take_along_axis(whole, gold.argmax(axis=1)[:, None], axis=1)[:, 0]
    return mean_of(-np.log(own), np.asarray(gold.any(axis=1)))


def brier(gold: np.ndarray, probabilities: np.ndarray, labels: Any) -> Drawable:
    """Return the mean square of probability and gold; both `[records, labels]`.

    With one label a record it sums over the labels.
    """
    squares = ((probabilities - gold) ** 2)[:, columns_of(labels)]
    if labels.several:
        return mean_of(squares.mean(axis=1))
    return mean_of(squares.sum(axis=1), np.asarray(gold.any(axis=1)))


def labels_without_auc(gold: np.ndarray, labels: Any) -> list[str]:
    """Return the labels that no record has, or every one; `gold` is `[records, labels]`."""
    counted = gold[gold.any(axis=1) | labels.several]
    shares = counted.mean(axis=0)
    return [labels.names[column] for column in columns_of(labels) if shares[column] in (0, 1)]


def curve(name: str, gold: np.ndarray, probabilities: np.ndarray, labels: Any) -> Drawable:
    """Return ROC-AUC or PR-AUC, by its name in `CURVES`; both arrays `[records, labels]`."""
    columns, counted = columns_of(labels), gold.any(axis=1) | labels.several
    pair = gold[:, columns], probabilities[:, columns]
    return curve_of(name, *pair, counted, CURVES[name])


# Scores of which lower is better.
LOSSES = {"log_loss": log_loss, "brier": brier}
# Scores with a threshold that moves, and what they are where no label has one.
CURVES = {"roc_auc": 0.5, "pr_auc": 0.0}


def f_beta(gold: np.ndarray, found: np.ndarray, labels: Any, beta: float) -> Drawable:
    """Return F-beta: of the positive label, else micro for several labels a record, else macro.

    The mean is over the labels that occur, like that of macro F1.
    """
    if labels.positive is not None:
        column = labels.names.index(labels.positive)
        gold, found = gold[:, [column]], found[:, [column]]
    parts = [sparse.csr_array(own.T, dtype=float) for own in (gold & found, found, gold)]

    def score(counts: np.ndarray) -> np.ndarray:
        correct, given, right = (part @ counts.T for part in parts)
        occurs = given + right > 0
        if labels.several:
            correct, given, right = (own.sum(axis=0)[None] for own in (correct, given, right))
        below = beta**2 * right + given
        values = (1 + beta**2) * correct / np.where(below > 0, below, 1)
        count = 1 if labels.several else occurs.sum(axis=0)
        return values.sum(axis=0) / np.maximum(count, 1)

    return Drawable(score, len(gold))


def top_k_hits(gold: np.ndarray, probabilities: np.ndarray, k: int, rows: np.ndarray) -> np.ndarray:
    """Return whether a gold label is among the k most likely `[records]`.

    Where each of the rows has one of three labels or more, the later of equally likely labels is
    ranked first, as in scikit-learn. Otherwise wrong labels come first among equals.
    """
    labels = gold.shape[1]
    if not (k < labels and labels > 2 and (gold[rows].sum(axis=1) == 1).all()):
        return top_k(gold, probabilities, k)
    right = gold.argmax(axis=1)[:, None]
    own = np.take_along_axis(probabilities, right, axis=1)
    later = (probabilities == own) & (np.arange(labels) > right)
    return ((probabilities > own) | later).sum(axis=1) < k


def tune_thresholds(
    examples: Sequence[Any], candidates: dict, labels: Any, settings: Settings
) -> float | dict[str, float] | None:
    """Return the thresholds for the settings; None: one threshold with the best F1.

    There is one for each label with `thresholds = "per_label"`, and with `metric = "f_beta"` it has
    the best F-beta. In a path of labels the threshold of a parent is never above its children's.

    Args:
        examples: gold.
        candidates: record id -> probabilities `[labels]`.
        labels: from `collect_targets`.
        settings: `metric`, and the table `competition`.
    """
    table, is_beta = settings.competition, settings.metric == "f_beta"  # type: ignore[attr-defined]
    each = labels.several and table.thresholds == "per_label"
    if not labels.has_threshold or not (each or is_beta):
        return None
    beta = table.beta if is_beta else 1.0
    gold = label_matrix([example.labels for example in examples], labels.names)
    probabilities = np.array([candidates[example.id] for example in examples], np.float64)
    if not labels.several:
        column = labels.names.index(labels.positive)
        return best_cut(gold[:, column], probabilities[:, column], beta)
    if not each:
        return best_cut(gold.ravel(), probabilities.ravel(), beta)
    found: dict[str, float] = {}
    hierarchy = getattr(labels, "hierarchy", "")
    # A parent is shorter than its children, so it comes first.
    for name in sorted(labels.names, key=len):
        column = labels.names.index(name)
        cut = best_cut(gold[:, column], probabilities[:, column], beta)
        parent = name.rpartition(hierarchy)[0] if hierarchy else ""
        found[name] = max(cut, found.get(parent, 0.0))
    return {name: found[name] for name in labels.names}


def best_cut(hits: np.ndarray, scores: np.ndarray, beta: float) -> float:
    """Return the threshold with the best F-beta of the items that score above it.

    Of equally good thresholds it is the one nearest to 0.5, which is also used without any hit.

    Args:
        hits: `[items]` of booleans.
        scores: `[items]`, from 0 to 1.
        beta: 1 is F1.
    """
    if not hits.any():
        return 0.5
    values = np.unique(np.append(scores, 0.0))[::-1]  # falling; all scores above each are kept
    order = np.argsort(-scores, kind="stable")
    correct = np.concatenate([[0], np.cumsum(hits[order])])
    kept = np.searchsorted(-scores[order], -values, side="left")  # number of scores above a value
    below = kept + beta**2 * hits.sum()
    quality = (1 + beta**2) * correct[kept] / below
    upper = np.append(1.0, values[:-1])
    middle = np.clip(0.5, values, np.nextafter(upper, -1))  # any cut between two values
    halfway = np.where(kept > 0, values + (upper - values) / 2, middle)
    halfway = np.where(halfway < upper, halfway, values)
    best = np.flatnonzero(quality == quality.max())
    return float(halfway[best][np.argmin(np.abs(halfway[best] - 0.5))])
