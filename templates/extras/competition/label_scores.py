"""Scores of probabilities and of ranked labels, and thresholds of several labels.

Where a record may have several labels, and for three labels or more, a score is the mean over the
labels, each against the rest. A label that no record has, or every one, has no ROC-AUC and no
PR-AUC. It is left out of the mean; where no label is left, ROC-AUC is 0.5 and PR-AUC 0. Scores of
probabilities leave out records whose gold label is not in the training file. MAP@k and top-k
accuracy leave out records that may have several labels and have none.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    fbeta_score,
    log_loss,
    roc_auc_score,
    top_k_accuracy_score,
)

from core.base.errors import InputError
from extras.competition.rankings import average_precision_at_k, by_groups, mean_ndcg, top_k
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
    return LABEL_METRICS[metric]


def score_labels(
    examples: Sequence[Any],
    candidates: dict,
    predictions: Sequence[Sequence[str]],
    labels: Any,
    settings: Settings,
) -> dict[str, float]:
    """Return the scores of probabilities and rankings, and F-beta.

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
    return score_matrices(gold, found, probabilities, groups, labels, settings.competition)


def score_matrices(
    gold: np.ndarray,
    found: np.ndarray,
    probabilities: np.ndarray,
    groups: Sequence[str | None],
    labels: Any,
    table: Table,
) -> dict[str, float]:
    """Return the scores of `score_labels`.

    Args:
        gold: `[records, labels]` of booleans; `found`: the predicted ones.
        probabilities: `[records, labels]`.
        groups: of the records.
        labels: from `collect_targets`.
        table: `k` and `beta`.
    """
    scores = {"f_beta": f_beta(gold, found, labels, table.beta)}
    known = gold.any(axis=1) | labels.several
    if known.any():
        scores |= score_probabilities(gold[known], probabilities[known], labels)
    if groups[0] is not None and labels.positive is not None:
        column = labels.names.index(labels.positive)
        relevant, given = gold[:, column], probabilities[:, column]
        scores["map_at_k"] = map_of_groups(relevant, given, groups, table.k)
    else:
        relevant, given = gold.ravel(), probabilities.ravel()
        groups = np.repeat(np.arange(len(gold)).astype(str), len(labels.names)).tolist()
        # A record with several labels may have none; a single label may be new, which is wrong.
        rows = gold.any(axis=1) | (not labels.several)
        scores |= {"map_at_k": 0.0, "top_k_accuracy": 0.0}
        if rows.any():
            scores["map_at_k"] = map_of_rows(gold[rows], probabilities[rows], table.k)
            scores["top_k_accuracy"] = top_k_accuracy(gold[rows], probabilities[rows], table.k)
    scores["ndcg"] = mean_ndcg(relevant.astype(float), given, groups)
    scores["ndcg_at_k"] = mean_ndcg(relevant.astype(float), given, groups, table.k)
    return scores


def label_matrix(rows: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """Return `[records, labels]` of booleans; unknown labels have no column."""
    number = {name: index for index, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)), bool)
    for row, own in zip(matrix, rows, strict=True):
        row[[number[name] for name in own if name in number]] = True
    return matrix


def score_probabilities(gold: np.ndarray, probabilities: np.ndarray, labels: Any) -> dict:
    """Return log loss, Brier score, ROC-AUC and PR-AUC; both arguments `[records, labels]`.

    Log loss and Brier score also come negated, as `neg_...`, which chooses the best epoch. With one
    label a record the Brier score sums over the labels; of two labels only one counts.
    """
    if labels.several:
        columns = list(range(len(labels.names)))
    elif len(labels.names) == 2:
        columns = [labels.names.index(labels.positive) if labels.positive else 1]
    else:
        columns = list(range(len(labels.names)))
    scores = {
        "roc_auc": mean_of_labels(roc_auc_score, gold, probabilities, columns, 0.5),
        "pr_auc": mean_of_labels(average_precision_score, gold, probabilities, columns, 0.0),
    }
    squares = (probabilities - gold)[:, columns] ** 2
    if labels.several:
        losses = [log_loss(gold[:, n], probabilities[:, n], labels=[False, True]) for n in columns]
        scores["log_loss"], scores["brier"] = float(np.mean(losses)), float(squares.mean())
    else:
        # Rounded probabilities may not sum to 1.
        whole = probabilities / probabilities.sum(axis=1, keepdims=True)
        numbers = list(range(len(labels.names)))
        scores["log_loss"] = float(log_loss(gold.argmax(axis=1), whole, labels=numbers))
        scores["brier"] = float(squares.sum(axis=1).mean())
    return scores | {f"neg_{name}": -scores[name] for name in ("log_loss", "brier")}


def mean_of_labels(
    score: Any, gold: np.ndarray, scores: np.ndarray, columns: Sequence[int], undefined: float
) -> float:
    """Return the mean of a score over the labels that some but not all records have."""
    values = [score(gold[:, n], scores[:, n]) for n in columns if len(np.unique(gold[:, n])) == 2]
    return float(np.mean(values)) if values else undefined


def f_beta(gold: np.ndarray, found: np.ndarray, labels: Any, beta: float) -> float:
    """Return F-beta of the positive label; else over all of several labels, or their mean."""
    if labels.positive is not None:
        column = labels.names.index(labels.positive)
        pair = gold[:, column], found[:, column]
        return float(fbeta_score(*pair, beta=beta, zero_division=0))
    average = "micro" if labels.several else "macro"
    seen = (gold | found).any(axis=0)  # macro over the occurring labels, like macro_f1
    pair = gold[:, seen], found[:, seen]
    if not seen.any():
        return 0.0
    if pair[0].shape[1] == 1:
        return float(fbeta_score(pair[0][:, 0], pair[1][:, 0], beta=beta, zero_division=0))
    return float(fbeta_score(*pair, beta=beta, average=average, zero_division=0))


def map_of_groups(
    relevant: np.ndarray, scores: np.ndarray, groups: Sequence[str | None], k: int
) -> float:
    """Return the mean average precision at k of groups with a relevant record."""
    members = [own for own in by_groups(groups) if relevant[own].any()]
    values = [average_precision_at_k(relevant[own], scores[own], k) for own in members]
    return float(np.mean(values)) if values else 0.0


def map_of_rows(gold: np.ndarray, probabilities: np.ndarray, k: int) -> float:
    """Return the mean average precision at k of the records' labels; 0 without a gold label."""
    return float(average_precision_at_k(gold, probabilities, k).mean())


def top_k_accuracy(gold: np.ndarray, probabilities: np.ndarray, k: int) -> float:
    """Return the share of records with a gold label among the k most likely.

    With one label a record scikit-learn ranks equal probabilities, the later label first. Otherwise
    wrong labels come first among equals.
    """
    labels = gold.shape[1]
    if k < labels and labels > 2 and (gold.sum(axis=1) == 1).all():
        numbers = gold.argmax(axis=1)
        return float(top_k_accuracy_score(numbers, probabilities, k=k, labels=range(labels)))
    return float(top_k(gold, probabilities, k).mean())


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
