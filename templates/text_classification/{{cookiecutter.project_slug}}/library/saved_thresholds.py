"""Thresholds as scores.json has them."""

import numpy as np

from task.decode import Threshold


def threshold_scores(threshold: Threshold) -> dict:
    """Return a threshold, or several and their mean, as scores.json holds them."""
    if not isinstance(threshold, dict):
        return {"threshold": threshold}
    return {"threshold": float(np.mean([*threshold.values()])), "thresholds": threshold}


def threshold_of(scores: dict) -> Threshold:
    """Return the threshold that scores.json holds, or all, where there are several."""
    return next(scores[name] for name in ("cuts", "thresholds", "threshold") if name in scores)
