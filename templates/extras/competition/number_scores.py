"""Scores of numbers: RMSE, MCRMSE, MAE, Pearson, Spearman, quadratic weighted kappa, NDCG.

Each takes `[examples]` of one target. A score that is undefined because nothing varies is 0. Errors
also come negated, as `neg_...`, which chooses the best epoch: of each score that decides, higher is
better, as in scikit-learn.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from extras.competition.cuts import apply_cuts, grades_between
from extras.competition.drawn import Drawable, kappa_of
from extras.competition.rankings import mean_ndcg

ERRORS = ("rmse", "mcrmse", "mae")
# Setting -> the deciding score; `mcrmse` is the mean of the targets' RMSE.
NUMBER_METRICS = {
    **{name: f"neg_{name}" for name in ERRORS},
    **{name: name for name in ("pearson", "spearman", "qwk", "ndcg", "ndcg_at_k")},
}


def rmse(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the root of the mean squared error."""
    return float(root_mean_squared_error(gold, predicted))


def mae(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean absolute error."""
    return float(mean_absolute_error(gold, predicted))


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the linear correlation; 0 if either is constant, or with a single example."""
    if len(gold) < 2 or not np.ptp(gold) or not np.ptp(predicted):
        return 0.0
    with np.errstate(all="ignore"):
        value = float(stats.pearsonr(gold, predicted).statistic)
    return value if np.isfinite(value) else 0.0


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the correlation of the ranks; ties share a rank; 0 as in `pearson`."""
    if len(gold) < 2 or not np.ptp(gold) or not np.ptp(predicted):
        return 0.0
    return float(stats.spearmanr(gold, predicted).statistic)


def quadratic_kappa(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the quadratic weighted kappa of grades; 0 if all have one grade.

    The distance of two grades is that of their numbers, so it needs no matrix of all grades, which
    a single outlier would make too large.

    Args:
        gold: whole numbers; `predicted` too.
    """
    return Drawable(kappa_of(gold, predicted), len(gold)).value


# For one target; several targets have the mean.
OF_A_TARGET: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "rmse": rmse,
    "mae": mae,
    "pearson": pearson,
    "spearman": spearman,
}


def score_numbers(
    gold: np.ndarray,
    predicted: np.ndarray,
    names: Sequence[str],
    groups: Sequence[str | None],
    cuts: dict[str, list[float]],
    lowest: Sequence[float],
    k: int,
) -> dict:
    """Return all scores that apply to these numbers.

    Args:
        gold: `[examples, targets]`, as `predicted`.
        names: of the targets.
        groups: of the examples, ranked within each by the first target; or None.
        cuts: for each target with grades, the numbers between neighbouring grades.
        lowest: the lowest grade of each target.
        k: examples of a group that count in `ndcg_at_k`.
    """
    rows: dict[str, dict] = {}
    for column, name in enumerate(names):
        pair = gold[:, column], predicted[:, column]
        rows[name] = {score: function(*pair) for score, function in OF_A_TARGET.items()}
        if name in cuts:
            found = apply_cuts(pair[1], cuts[name], lowest[column])
            rows[name]["qwk"] = quadratic_kappa(np.rint(pair[0]), found)
    shared = set.intersection(*(set(row) for row in rows.values()))
    scores: dict = {
        score: float(np.mean([row[score] for row in rows.values()]))
        for score in ("rmse", "mae", "pearson", "spearman", "qwk")
        if score in shared
    }
    scores["mcrmse"] = scores["rmse"]
    scores["rmse"] = rmse(gold.ravel(), predicted.ravel())
    if groups[0] is not None and gold.min() >= 0:
        scores["ndcg"] = mean_ndcg(gold[:, 0], predicted[:, 0], groups)
        scores["ndcg_at_k"] = mean_ndcg(gold[:, 0], predicted[:, 0], groups, k)
    scores |= {f"neg_{name}": -scores[name] for name in ERRORS}
    if len(names) > 1:
        scores["per_target"] = {name: {**row, "gold": len(gold)} for name, row in rows.items()}
    return scores


def find_grades(gold: np.ndarray, scaling: dict, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the grades of each target with whole gold numbers, lowest to highest in training.

    Targets with other numbers, or with more than `MOST_GRADES` grades, have none.
    """
    return {
        name: grades
        for column, name in enumerate(names)
        if (grades := grades_between(scaling["lowest"][column], scaling["highest"][column])).size
        and np.array_equal(gold[:, column], np.rint(gold[:, column]))
    }
