"""Orbit's training loop: many steps per call, rotating checkpoints, two jobs.

Model, generator, evaluator, run folder and numbers are those of `fit`.
Source: https://github.com/tensorflow/models/tree/master/orbit.
"""

import json
import math
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import keras
import numpy as np
import orbit
import tensorflow as tf

from core.base.errors import EndedWell, InputError, ToldToEnd, gist
from core.base.files import read_json_lines
from core.base.workers import all_workers, broadcast, is_chief
from core.batches import DataGenerator
from core.runs.checkpoints import Position, checkpoint_variables
from core.runs.run import Run
from core.runs.scores import read_scores
from core.scores.evaluator import Evaluator
from core.step import TrainingModel
from core.training import Training
from extras.orbit.settings import Settings

SECONDS_BETWEEN_LOOKS = 2.0  # between looks of the evaluating job for a checkpoint
SECONDS_BETWEEN_WORDS = 60.0  # between its messages while none arrives


def train_with_orbit(training: Training, callbacks: list[keras.callbacks.Callback]) -> None:
    """Do what `orbit.job` says, from the newest checkpoint on.

    Args:
        training: its run receives checkpoints, scores and the best weights.
        callbacks: Orbit counts and saves by itself, and uses only the `Evaluator`.

    Raises:
        EndedWell: another job does the rest.
        InputError: all checkpoints are damaged, or of a model with other shapes; or the evaluating
            job waited too long for the next one.
    """
    evaluator = next(callback for callback in callbacks if isinstance(callback, Evaluator))
    settings, run, model = training.settings, training.run, training.models.training
    schedule = Schedule(training)
    evaluator.set_model(model)
    evaluator.on_epoch_begin(0)
    with tempfile.TemporaryDirectory() as nowhere:
        # All workers save together, because they sum their values; the chief's file is kept.
        folder = str(run.folder / "checkpoints") if is_chief() else nowhere
        if settings.orbit.job == "evaluate":
            evaluate_checkpoints(settings, schedule, model, run, evaluator, folder)
            return
        state = PositionState(run.position)
        manager = make_manager(settings, model, state, folder)
        restore(manager, model, run, state)
        OrbitTraining(training, schedule, evaluator, manager).run_to_end()
    if settings.orbit.job == "train":
        raise EndedWell("all steps are trained; orbit.job = evaluate scores the checkpoints.")


class Schedule:
    """The steps at which an epoch ends and dev is scored.

    Args:
        training: its settings `evaluate_steps`, and `steps_per_loop` of the table `orbit`.
    """

    def __init__(self, training: Training) -> None:
        self.epoch_steps, self.last = len(training.batches), training.last_step
        self.evaluate_steps = training.settings.evaluate_steps or self.last
        self.steps_per_loop = training.settings.orbit.steps_per_loop

    def ends_epoch(self, step: int) -> bool:
        """Return whether an epoch or the training ends at a step."""
        return step % self.epoch_steps == 0 or step == self.last

    def is_scored(self, step: int) -> bool:
        """Return whether dev is scored after a step."""
        return self.ends_epoch(step) or step % self.evaluate_steps == 0

    def steps_at_once(self, step: int) -> int:
        """Return how many steps may follow a step before something else is due."""
        until = [every - step % every for every in (self.epoch_steps, self.evaluate_steps)]
        return min(self.steps_per_loop, self.last - step, *until)


class PositionState(tf.train.experimental.PythonState):
    """Keeps a position in TensorFlow's checkpoints.

    Args:
        position: to keep.
        kept: names that a restored checkpoint does not change.
    """

    def __init__(self, position: Position, kept: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.position = position
        self.kept = kept

    def serialize(self) -> str:
        return json.dumps(vars(self.position))

    def deserialize(self, string_value: str) -> None:
        saved = json.loads(string_value)
        vars(self.position).update({k: v for k, v in saved.items() if k not in self.kept})


def make_checkpoint(model: TrainingModel, state: PositionState) -> tf.train.Checkpoint:
    """Return the checkpoint of everything that changes during a training."""
    variables = [variable.value for variable in checkpoint_variables(model)]
    return tf.train.Checkpoint(variables=variables, position=state)


def make_manager(
    settings: Settings, model: TrainingModel, state: PositionState, folder: str
) -> tf.train.CheckpointManager:
    """Return the manager that keeps the newest checkpoints."""
    return tf.train.CheckpointManager(
        make_checkpoint(model, state),
        folder,
        max_to_keep=settings.orbit.kept_checkpoints,
        step_counter=model.optimizer.iterations.value,
        checkpoint_interval=settings.checkpoint_steps,
    )


def restore(
    manager: tf.train.CheckpointManager, model: TrainingModel, run: Run, state: PositionState
) -> None:
    """Resume from the newest undamaged checkpoint, if there is one; the chief tells the others.

    Raises:
        InputError: all are damaged, or of a model with other shapes.
    """
    if broadcast(restore_newest(manager) if is_chief() else False):
        tell_workers(model, state)
    run.forget_later_rows()


def tell_workers(model: TrainingModel, state: PositionState) -> None:
    """Send the chief's restored values to all workers, which may not see its files."""
    state.deserialize(broadcast(state.serialize()))
    for variable in checkpoint_variables(model):
        variable.assign(broadcast(np.asarray(variable)))


def restore_newest(manager: tf.train.CheckpointManager) -> bool:
    """Return whether a checkpoint was restored; skip damaged ones with a warning.

    Raises:
        InputError: all are damaged, or of a model with other shapes.
    """
    damage = ""
    for path in reversed(manager.checkpoints):
        if found := restore_whole(manager.checkpoint, path):
            damage = damage or f"{path} is damaged ({found})"
            continue
        if damage:
            print(f"warning: {damage}: going on from the one before.")
        return True
    if damage:
        raise InputError(f"{damage}, and so are all before: delete them to begin the run anew.")
    return False


def restore_whole(checkpoint: tf.train.Checkpoint, path: str) -> str:
    """Restore a checkpoint; return a description of its damage, or "".

    Raises:
        InputError: it is of a model with other shapes.
    """
    try:
        checkpoint.restore(path).assert_existing_objects_matched()
    except ValueError as error:
        raise InputError(
            f"{path} is of a model of another shape ({gist(error)}): use the settings it was "
            "trained with, or another --run_name."
        ) from error
    except (tf.errors.OpError, AssertionError, IndexError, RuntimeError) as error:
        return gist(error)  # the last two are raised by the reader for a truncated file
    return ""


class Trainer(orbit.StandardTrainer):
    """Runs steps of the training model in one TensorFlow loop.

    Args:
        model: compiled.
        generator: of the training examples.
        position: of the first batch.
    """

    def __init__(self, model: TrainingModel, generator: DataGenerator, position: Position) -> None:
        strategy = model.distribute_strategy
        super().__init__(generator.to_dataset(position.epoch, position.step, strategy))
        self.model = model
        self.strategy = strategy
        self.position = position

    def train_loop_begin(self) -> None:
        """Reset the means of the losses at the start of each epoch."""
        if self.position.step == 0:
            self.model.reset_metrics()

    def train_step(self, iterator: Iterator) -> None:
        """Update the weights with the next batch."""
        self.strategy.run(self.model.train_step, args=(next(iterator),))

    def train_loop_end(self) -> dict[str, float]:
        """Return the means of the losses of this epoch so far."""
        return mean_losses(self.model)


def mean_losses(model: TrainingModel) -> dict[str, float]:
    """Return the means of the losses of this epoch so far by name."""
    return {name: float(mean) for name, mean in model.loss_means.result().items()}


class DevEvaluator(orbit.AbstractEvaluator):
    """Scores dev as `fit` does, by the same callback.

    Args:
        evaluator: of the training model.
        model: the training model.
    """

    def __init__(self, evaluator: Evaluator, model: TrainingModel) -> None:
        self.evaluator = evaluator
        self.model = model

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Score all of dev; return the losses so far and the deciding score."""
        logs = mean_losses(self.model)
        self.evaluator.score(logs)
        return logs


class OrbitTraining:
    """Lets Orbit's controller train, and does what is due between its loops."""

    def __init__(
        self,
        training: Training,
        schedule: Schedule,
        evaluator: Evaluator,
        manager: tf.train.CheckpointManager,
    ) -> None:
        run, model = training.run, training.models.training
        self.scores = training.settings.orbit.job != "train"
        self.schedule = schedule
        self.model = model
        self.position = run.position
        self.controller = orbit.Controller(
            global_step=model.optimizer.iterations.value,
            trainer=Trainer(model, training.batches, run.position),
            evaluator=DevEvaluator(evaluator, model),
            strategy=model.distribute_strategy,
            train_actions=[self.after_steps],
            steps_per_loop=schedule.steps_at_once,
            summary_dir=str(run.folder / "tensorboard" / "orbit") if is_chief() else None,
        )
        # Not passed above: it would restore the newest, even if damaged, and only on this worker.
        self.controller.checkpoint_manager = manager
        self.preempted = False

    def run_to_end(self) -> None:
        """Train to the last step, or until dev stops improving."""
        position = self.position
        before = signal.signal(signal.SIGTERM, self.note_preemption)
        self.clock = time.perf_counter()
        self.model.stop_training = position.stopped
        try:
            while position.updates < self.schedule.last and not self.model.stop_training:
                steps = self.schedule.steps_at_once(position.updates)
                self.controller.train(position.updates + steps, checkpoint_at_completion=False)
        finally:
            signal.signal(signal.SIGTERM, before)

    def note_preemption(self, number: int, frame: FrameType | None) -> None:
        """Remember SIGTERM; preemptible machines then give some seconds."""
        self.preempted = True

    def after_steps(self, losses: dict) -> None:
        """Advance the position; score and save if due; end if the process must.

        The controller calls this before it saves at its intervals, so the next checkpoint contains
        the scores.

        Raises:
            ToldToEnd: a worker received SIGTERM; all have saved.
        """
        position = self.position
        position.updates = int(self.controller.global_step.numpy())
        position.epoch, position.step = divmod(position.updates, self.schedule.epoch_steps)
        position.seconds += time.perf_counter() - self.clock
        if self.scores and self.schedule.is_scored(position.updates):
            self.controller.evaluate()
        self.clock = time.perf_counter()
        told_to_end = any(all_workers().gather(self.preempted))
        if told_to_end or self.schedule.ends_epoch(position.updates):
            self.controller.save_checkpoint()
        if told_to_end:
            raise ToldToEnd("told to end: all is saved; run the same command again to go on.")


def evaluate_checkpoints(
    settings: Settings,
    schedule: Schedule,
    model: TrainingModel,
    run: Run,
    evaluator: Evaluator,
    folder: str,
) -> None:
    """Score the checkpoints of a training job in order, as they appear, until its last.

    Raises:
        InputError: none arrived for `orbit.wait_minutes`, or one is of a model with other shapes.
    """
    position = run.position
    scores = read_scores(run.folder)
    if "dev" in scores:
        position.best = scores["dev"][scores["monitor"]]
    # These don't describe a checkpoint that was never scored.
    state = PositionState(position, kept=("best", "still_loss", "waited", "stopped"))
    controller = orbit.Controller(
        global_step=model.optimizer.iterations.value,
        evaluator=DevEvaluator(evaluator, model),
        strategy=model.distribute_strategy,
        eval_summary_dir=str(run.folder / "tensorboard" / "orbit_dev") if is_chief() else None,
    )
    checkpoint = make_checkpoint(model, state)
    coming = ComingCheckpoints(settings, schedule, run, folder)
    while path := broadcast(coming.wait_for_next() if is_chief() else ""):
        if damage := broadcast(restore_whole(checkpoint, path) if is_chief() else ""):
            there = Path(f"{path}.index").is_file()
            reason = f"is damaged ({damage})" if there else "was deleted before it could be scored"
            print(f"skipping {path}, which {reason}.", flush=True)
            continue
        tell_workers(model, state)
        controller.evaluate()


class ComingCheckpoints:
    """The unscored checkpoints of another job, oldest first.

    Args:
        settings: `wait_minutes` of the table `orbit`.
        schedule: of the training.
        run: its metrics.jsonl says what is scored.
        folder: of the checkpoints.
    """

    def __init__(self, settings: Settings, schedule: Schedule, run: Run, folder: str) -> None:
        self.seconds = settings.orbit.wait_minutes * 60
        self.last, self.run, self.folder = schedule.last, run, folder
        self.asked = 0  # the last returned step, so that a damaged checkpoint comes only once

    def wait_for_next(self) -> str:
        """Return the path of the next checkpoint; empty: the last step is scored.

        Raises:
            InputError: none arrived for too long.
        """
        began, said = time.monotonic(), -math.inf
        while not (path := self.find_next()):
            scored, now = self.scored(), time.monotonic()
            if scored >= self.last:
                return ""
            if self.seconds and now - began >= self.seconds:
                raise InputError(
                    f"no checkpoint after step {scored} of {self.last} has come to {self.folder} "
                    f"for {self.seconds / 60:g} minutes (orbit.wait_minutes), and the training is "
                    "not finished: see what ended the process with orbit.job = train, then start "
                    "both again."
                )
            if now - said >= SECONDS_BETWEEN_WORDS:
                where = f"after step {scored} of {self.last} in {self.folder}"
                print(f"waiting for a checkpoint {where}", flush=True)
                said = now
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self.asked = step_of(path)
        return path

    def find_next(self) -> str:
        """Return the oldest unscored checkpoint; empty: none."""
        state = tf.train.get_checkpoint_state(self.folder)
        paths = sorted(state.all_model_checkpoint_paths, key=step_of) if state else []
        done = max(self.asked, self.scored())
        return next((path for path in paths if step_of(path) > done), "")

    def scored(self) -> int:
        """Return the last scored step, of this process or an earlier one."""
        metrics = self.run.folder / "metrics.jsonl"
        rows = [row for _, row in read_json_lines(metrics)] if metrics.is_file() else []
        return max((row["step"] for row in rows), default=0)


def step_of(path: str) -> int:
    """Return the step of a checkpoint: the number in its name."""
    return int(path.rpartition("-")[2])
