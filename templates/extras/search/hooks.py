"""Report the scores of a trial to its study, and stop the training if it falls behind."""

import contextlib
import re
from typing import Any

import keras

from core.scores.evaluation import OwnWeights
from core.training import Training
from extras.search.names import JOURNAL, PRUNED

TRIAL = re.compile(r"trial_(\d+)")


def prepare(training: Training) -> None:
    """Report the scores of a trial of a search; other trainings stay as they are."""
    folder = training.run.folder
    found = TRIAL.fullmatch(folder.name)
    if not found or not (folder.parent / JOURNAL).is_file():
        return
    from extras.search.study import open_study, open_trial

    study = open_study(folder.parent, training.settings.search)
    trial = open_trial(study, int(found[1]) - 1)
    training.kept_weights = ReportedWeights(training, trial)


class ReportedWeights(OwnWeights):
    """Scores and keeps the same weights as before, and reports each score to the study.

    A trial that falls behind ends as one that does not improve any more: with its best weights,
    their predictions and a report.

    Args:
        training: of the trial.
        trial: of Optuna.
    """

    def __init__(self, training: Training, trial: Any) -> None:
        self.training, self.trial, self.inner = training, trial, training.kept_weights

    def scored_weights(self, model: keras.Model) -> contextlib.AbstractContextManager[None]:
        return self.inner.scored_weights(model)

    def add(self, model: keras.Model, step: int, score: float) -> None:
        self.inner.add(model, step, score)
        metrics = self.training.run.folder / "metrics.jsonl"
        # Scorings, not steps: trials with another batch size have other steps.
        scorings = 1 + (metrics.read_bytes().count(b"\n") if metrics.is_file() else 0)
        reported = self.trial.study.get_trials(deepcopy=False)[self.trial.number]
        if scorings not in reported.intermediate_values:  # else it was before an interruption
            self.trial.report(score, scorings)
        position = self.training.run.position
        if position.updates < self.training.last_step and self.trial.should_prune():
            self.trial.set_user_attr(PRUNED, scorings)
            self.training.models.training.stop_training = True
            position.stopped = True

    def average(self, model: keras.Model) -> list[int]:
        return self.inner.average(model)
