"""Train the best settings and the default ones with further seeds, and compare them.

The best of many trials is also the luckiest one. Trained with other seeds it has no luck to keep.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from core.base.errors import InputError
from core.base.extras import need
from core.runs.scores import read_scores
from extras.search.settings import Settings
from extras.search.space import Searched
from extras.search.study import claim, trial_name
from extras.search.trainings import train_run

DEFAULT = "default"


def further_seeds(settings: Settings) -> list[int]:
    """Return the seeds that follow the search's own."""
    return [settings.seed + 1 + number for number in range(settings.search.seeds)]


def run_names(best: FrozenTrial, seed: int) -> tuple[str, str]:
    """Return the names of the runs of the best and the default settings with a seed."""
    return f"{trial_name(best.number)}_seed_{seed}", f"{DEFAULT}_seed_{seed}"


def is_default(trial: FrozenTrial, space: Sequence[Searched]) -> bool:
    """Return whether a trial has the settings without a search."""
    return all(trial.params[one.name] == one.default for one in space)


def find_default(trials: Sequence[FrozenTrial], space: Sequence[Searched]) -> FrozenTrial | None:
    """Return the trial with the settings without a search; None: their values were not tried."""
    whole = (trial for trial in trials if trial.state == TrialState.COMPLETE)
    return next((trial for trial in whole if is_default(trial, space)), None)


def train_seeds(settings: Settings, folder: Path, best: FrozenTrial) -> bool:
    """Train both with each seed, as far as no other process does; return whether all are ready.

    Raises:
        InputError: a training failed.
    """
    ready = True
    for seed in further_seeds(settings):
        for name, values in zip(run_names(best, seed), (best.params, {}), strict=True):
            if "finished" in read_scores(folder / name):
                continue
            if (lock := claim(folder, name)) is None:
                ready = False
                continue
            print(f"{name}: the {'best' if values else 'default'} settings with seed {seed}")
            run = f"{folder.name}/{name}"
            score, error = train_run(settings, run, {**values, "seed": seed})
            lock.release()
            if score is None:
                raise InputError(f"{name} failed: {error.rstrip('.')}.")
    return ready


def find_lead(
    settings: Settings, folder: Path, best: FrozenTrial, compare: Callable[[Any, Any], Any]
) -> dict[str, Any]:
    """Return the lead of the best settings: the mean over the seeds, with its 95 % interval.

    The dev records are resampled; on the same drawn records each run has a score, and the
    difference is that of the mean scores of both.

    Args:
        settings: how many seeds there are.
        folder: of the search.
        best: the trial.
        compare: of the task: compares two scored folders.

    Raises:
        InputError: dev or predictions are damaged.
    """
    comparison = need("comparison")
    pairs = []
    for seed in further_seeds(settings):
        scored = [comparison.find_scored(str(folder / name)) for name in run_names(best, seed)]
        pairs.append(compare(*scored))
    mean = comparison.Compared(
        mean_score([pair.first for pair in pairs]),
        mean_score([pair.second for pair in pairs]),
        pairs[0].records,
        min(pair.resamples for pair in pairs),
    )
    whole = np.ones((1, pairs[0].records))
    seeds = [
        {"seed": seed, "best": float(pair.first(whole)[0]), "default": float(pair.second(whole)[0])}
        for seed, pair in zip(further_seeds(settings), pairs, strict=True)
    ]
    found = mean.difference()
    return {**asdict(found), "verdict": found.verdict, "by_seed": seeds}


def mean_score(scores: Sequence[Any]) -> Any:
    """Return the mean of scores of the same drawn records."""
    return lambda counts: np.mean([score(counts) for score in scores], axis=0)


def describe_lead(lead: dict[str, Any], best: FrozenTrial, default: FrozenTrial | None) -> str:
    """Return in words whether the lead over the default settings survives.

    Args:
        lead: from `find_lead`.
        best: the trial.
        default: the trial of the default settings, if there was one.
    """
    ahead_by = (best.value or 0.0) - (default.value or 0.0) if default else 0.0
    before = f"{ahead_by:+.4f} in the search; " if default else ""
    ahead = sum(row["best"] > row["default"] for row in lead["by_seed"])
    seeds = len(lead["by_seed"])
    verdict = {
        "better": "the lead survives",
        "worse": "the best trial was luck: its settings are worse than the default ones",
    }.get(lead["verdict"], "the lead is not clear")
    return (
        f"{trial_name(best.number)} against the default settings: {before}with {seeds} further "
        f"{'seed' if seeds == 1 else 'seeds'}: mean difference {lead['difference']:+.4f}, 95 % "
        f"interval {lead['low']:+.4f} to {lead['high']:+.4f}, ahead with {ahead} of {seeds}: "
        f"{verdict}."
    )
