"""The study of a search: a journal in its folder, which several processes share.

Each process asks for a trial while it holds the lock of the study, and holds the lock of the trial
until the trial has ended. The system frees the locks of a process that is killed, so a trial that
is running and not locked was interrupted: the next process goes on with it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file
from optuna.trial import FrozenTrial, Trial, TrialState

from core.base.errors import InputError
from extras.search.names import JOURNAL, PRUNED
from extras.search.settings import Table
from extras.search.space import Searched

NAME = "search"
FAILED = "error"  # attribute of a trial: why its training failed
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Journal(JournalFileBackend):
    """Drops a last line that a crash has cut off, before the next one is appended to it."""

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with get_lock_file(self._lock), open(self._file_path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
        super().append_logs(logs)


def trial_name(number: int) -> str:
    """Return the name of the folder of a trial, counted from 1; Optuna counts from 0."""
    return f"trial_{number + 1}"


def open_study(folder: Path, table: Table) -> optuna.Study:
    """Return the study of a search's folder; it is made if there is none.

    Raises:
        InputError: its journal is damaged.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / JOURNAL
    # The usual lock is a symbolic link, which Windows reserves to administrators.
    lock = JournalFileOpenLock(str(path)) if os.name == "nt" else None
    try:
        storage = JournalStorage(Journal(str(path), lock))
        return optuna.create_study(
            storage=storage,
            study_name=NAME,
            direction="maximize",
            pruner=make_pruner(table),
            load_if_exists=True,
        )
    except (ValueError, KeyError) as error:  # JSONDecodeError is a ValueError
        raise InputError(
            f"{path} is damaged ({error}): restore it, or search anew with another --run_name."
        ) from error


def make_pruner(table: Table) -> optuna.pruners.BasePruner:
    """Return what decides whether a trial is stopped; its resource is the number of scorings."""
    if table.pruner == "median":
        # The first scoring is of a model that has hardly learned.
        return optuna.pruners.MedianPruner(table.startup_trials, n_warmup_steps=2)
    if table.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner()
    return optuna.pruners.NopPruner()


def best_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that were trained to their end, best first; of equal ones the earlier."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number))


@dataclass
class Claim:
    """A trial that this process works on, and the lock that says so."""

    trial: FrozenTrial
    lock: FileLock


class SharedStudy:
    """The study as one of several processes uses it.

    Args:
        folder: of the search.
        space: the settings to try.
        table: [search] of config.toml.
    """

    def __init__(self, folder: Path, space: Sequence[Searched], table: Table) -> None:
        self.folder, self.space, self.table = folder, space, table
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / ".study.lock")
        with self.lock:
            self.study = open_study(folder, table)
            defaults = {one.name: one.default for one in space}
            # One that waits counts: another process has just put it there.
            known = self.study.get_trials(deepcopy=False)
            if not known and all(one.has_default for one in space):
                self.study.enqueue_trial(defaults)

    def trials(self) -> list[FrozenTrial]:
        """Return all trials, as all processes have left them; those that wait are left out."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state != TrialState.WAITING]

    def next_trial(self) -> Claim | None:
        """Return an interrupted trial or a new one; None: all are done, or in other hands."""
        with self.lock:
            running = [trial for trial in self.trials() if trial.state == TrialState.RUNNING]
            for trial in running:
                if (lock := claim(self.folder, trial_name(trial.number))) is None:
                    continue
                if self.has_settings(trial):
                    return Claim(trial, lock)
                # It was interrupted while its settings were drawn.
                self.study.tell(trial.number, state=TrialState.FAIL)
                lock.release()
            if sum(self.has_settings(trial) for trial in self.trials()) >= self.table.trials:
                return None
            number = len(self.study.get_trials(deepcopy=False))
            self.study.sampler = make_sampler(self.table.seed, number)
            made = self.study.ask({one.name: one.distribution for one in self.space})
            lock = claim(self.folder, trial_name(made.number))
            assert lock is not None  # the number is new, and this process has the study
            return Claim(self.study.get_trials(deepcopy=False)[made.number], lock)

    def has_settings(self, trial: FrozenTrial) -> bool:
        """Return whether a trial has a value of each searched setting; else it does not count."""
        return {one.name for one in self.space} <= trial.params.keys()

    def end(self, trial: FrozenTrial, score: float | None, error: str = "") -> FrozenTrial:
        """Note the end of a trial once, and return it.

        Args:
            trial: of this process.
            score: on dev; None: the training failed.
            error: why it failed.
        """
        with self.lock:
            now = self.study.get_trials(deepcopy=False)[trial.number]
            if now.state in ENDED:
                return now
            if score is None:
                open_trial(self.study, trial.number).set_user_attr(FAILED, error)
                return self.study.tell(trial.number, state=TrialState.FAIL)
            if PRUNED in now.user_attrs:
                return self.study.tell(trial.number, state=TrialState.PRUNED)
            return self.study.tell(trial.number, score)


def make_sampler(seed: int, number: int) -> optuna.samplers.BaseSampler:
    """Return what draws the settings of a trial, from the trials before it.

    Each trial has random numbers of its own, so that processes draw different settings, and a
    search that goes on draws what it would have drawn.
    """
    own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    return optuna.samplers.TPESampler(seed=own, constant_liar=True)


def claim(folder: Path, name: str) -> FileLock | None:
    """Return the lock of a run of the search; None: another process has it."""
    lock = FileLock(folder / f".{name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def open_trial(study: optuna.Study, number: int) -> Trial:
    """Return a trial of any process, to report to it."""
    storage: Any = study._storage
    study_id = storage.get_study_id_from_name(NAME)
    return Trial(study, storage.get_trial_id_from_study_id_trial_number(study_id, number))
