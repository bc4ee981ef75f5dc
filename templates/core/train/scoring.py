"""Score dev by the task's metric, keep the best weights, checkpoint: what happens between steps."""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError, ToldToEnd
from core.base.files import append_json_line, write_json, write_json_lines, write_whole
from core.base.settings import CoreSettings
from core.base.workers import gather, is_chief, worker_count
from core.data.data_generator import DataGenerator
from core.runs.run_folder import Run, members, read_scores

AGREED_STEPS = 10  # several workers ask each other so often whether one was told to end


@dataclass(frozen=True)
class Evaluation:
    """What the metric says of one file.

    Attributes:
        scores: numbers by name; threshold, rates of labels, `beside`: scores of training records.
        predictions: records of the predictions file, in the order of the file.
        shown: a few records in words, gold beside prediction.
    """

    scores: dict
    predictions: list[dict]
    shown: list[str]


def keep_scores(run: str, path: Path, evaluation: Evaluation, facts: dict) -> None:
    """Add the scores and predictions of another file to a run, by the name of the file.

    Those on dev, which chose the weights, stay: another dev.jsonl, or another file of the same
    name, has the name of its folder before its own.

    Args:
        run: its folder or its name in runs/; a cross-validation keeps them as a whole.
    """
    folder, *others = members(run)
    folder, name = folder.parent if others else folder, path.stem
    scores = read_scores(folder)
    files, own = scores.get("files", {}), evaluation.scores
    if name == "dev" or files.get(name, own)["data_hash"] != own["data_hash"]:
        name = f"{path.resolve().parent.name}_{name}"
    write_json_lines(folder / "predictions" / f"{name}.jsonl", evaluation.predictions)
    write_json(folder / "scores.json", {**scores, "files": {**files, name: {**own, **facts}}})


class OwnWeights:
    """Which weights are scored and kept: the model's own; an extra may offer averages of them."""

    def scored_weights(self, model: keras.Model) -> contextlib.AbstractContextManager[None]:
        """Give a model, while it is scored, the weights that are meant."""
        return contextlib.nullcontext()

    def add(self, model: keras.Model, step: int, score: float) -> None:
        """Note the score of the weights of a step."""

    def average(self, model: keras.Model) -> list[int]:
        """Give a model the last average to try; return the steps it is of, none: there is none."""
        return []


class Evaluator(keras.callbacks.Callback):
    """Score dev each epoch or every N steps; keep the best; stop when nothing improves.

    Args:
        run: receives metrics.jsonl, scores.json, the best weights and their predictions.
        evaluate: scores dev with the current weights; `monitor` is the score that decides.
        inference_model: whose weights are kept; `averages` may put others in their place.
        facts: what a score must be read with; from `provenance`.
    """

    def __init__(
        self,
        run: Run,
        evaluate: Callable[[], Evaluation],
        inference_model: keras.Model,
        monitor: str,
        facts: dict,
        train_batches: DataGenerator,
        settings: CoreSettings,
        averages: OwnWeights,
    ) -> None:
        super().__init__()
        self.run, self.evaluate, self.inference_model = run, evaluate, inference_model
        self.monitor, self.facts, self.averages = monitor, facts, averages
        self.evaluate_steps, self.patience = settings.evaluate_steps, settings.patience
        self.train_batches = train_batches
        self.writer = tf.summary.create_noop_writer()
        if is_chief():
            self.writer = tf.summary.create_file_writer(str(run.folder / "tensorboard"))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.since = (time.perf_counter(), self.run.position.updates)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self.is_due():
            self.score(logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if not self.is_due():  # else the last step of the epoch was scored already
            self.score(logs)

    def is_due(self) -> bool:
        """Tell whether dev is scored after this step, besides the end of the epoch."""
        return bool(self.evaluate_steps) and self.run.position.updates % self.evaluate_steps == 0

    def score(self, logs: dict | None) -> None:
        """Score dev, write the row of metrics.jsonl, and keep the weights if they are the best.

        Raises:
            InputError: the loss or a weight is not finite.
        """
        position = self.run.position
        seconds, steps = time.perf_counter() - self.since[0], position.updates - self.since[1]
        arrays = [*(logs or {}).values(), *self.model.weights]
        if not all(np.isfinite(np.asarray(array)).all() for array in arrays):
            raise InputError(
                f"the loss or the weights are not finite after {position.updates} steps: lower "
                "learning_rate or raise warm_up, and begin anew with --overwrite true."
            )
        with self.averages.scored_weights(self.model):
            evaluation = self.evaluate()
            self.keep_if_best(evaluation)
            score = evaluation.scores[self.monitor]
            self.averages.add(self.inference_model, position.updates, score)
        whole = len(self.train_batches)
        row = {
            "epoch": position.epoch + (position.step and round(position.step / whole, 4)),
            "step": position.updates,
            # Arrays `[1]` within an epoch, and numbers at its end.
            **{name: np.asarray(value).item() for name, value in (logs or {}).items()},
            "learning_rate": float(self.model.optimizer.learning_rate),
            "examples_per_second": steps * self.train_batches.batch_size / seconds,
            **{f"dev_{k}": v for k, v in evaluation.scores.items() if isinstance(v, int | float)},
            **evaluation.scores.get("beside", {}),
        }
        # JSON holds finite numbers only, and a perplexity may be infinite.
        row = {name: value for name, value in row.items() if math.isfinite(value)}
        append_json_line(self.run.folder / "metrics.jsonl", row)
        with self.writer.as_default(step=position.updates):
            for name, value in row.items():
                tf.summary.scalar(name, value)
        self.writer.flush()
        if logs is not None:
            logs[f"dev_{self.monitor}"] = score
        print(*(f"\n{text}" for text in evaluation.shown), sep="", end="")
        self.since = (time.perf_counter(), position.updates)

    def finish(self) -> None:
        """Score the last average of weights, if there is one; keep it if it is the best."""
        if steps := self.averages.average(self.inference_model):
            evaluation = self.evaluate()
            self.keep_if_best(evaluation, averaged_steps=steps)
            score = evaluation.scores[self.monitor]
            print(f"average of the weights after {steps} steps: {self.monitor} {score:.4f}")

    def keep_if_best(self, evaluation: Evaluation, **facts: Any) -> None:
        """Keep weights, predictions and scores of the best scoring so far, with facts about it."""
        position = self.run.position
        if evaluation.scores[self.monitor] > position.best:
            position.best, position.waited = evaluation.scores[self.monitor], 0
            folder = self.run.folder
            self.run.note_files("best.weights.h5", stay=False)  # else a kill leaves a wrong hash
            write_whole(folder / "best.weights.h5", self.inference_model.save_weights)
            self.run.note_files("best.weights.h5")
            write_json_lines(folder / "predictions" / "dev.jsonl", evaluation.predictions)
            # Scores of other files are dropped: they belong to the weights before these.
            write_json(
                folder / "scores.json",
                {**self.facts, "monitor": self.monitor, **facts, "dev": evaluation.scores},
            )
        else:
            position.waited += 1
            if self.patience and position.waited >= self.patience:
                self.model.stop_training = True
                position.stopped = True


class PositionCounter(keras.callbacks.Callback):
    """Count epochs, steps and seconds in a run; it stands before what reads the position."""

    def __init__(self, run: Run, epoch_steps: int) -> None:
        super().__init__()
        self.run, self.epoch_steps = run, epoch_steps

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.clock = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        position, now = self.run.position, time.perf_counter()
        position.step += 1
        position.updates += 1
        position.seconds += now - self.clock
        self.clock = now

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.run.position.step == self.epoch_steps:  # else the training ends in it
            self.run.position.epoch, self.run.position.step = epoch + 1, 0


class Checkpoint(keras.callbacks.Callback):
    """Write all state every N steps and after each epoch; stands after the other callbacks.

    Only whole steps are written: an interruption may strike in the middle of an update.
    """

    def __init__(self, run: Run, settings: CoreSettings) -> None:
        super().__init__()
        self.run, self.every = run, settings.checkpoint_steps

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.told = False
        signal.signal(signal.SIGTERM, self.note)

    def on_train_end(self, logs: dict | None = None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember that the process was told to end: preemptible machines give some seconds."""
        self.told = True

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # The last step of an epoch is written after its scores, by `on_epoch_end`.
        if batch + 1 < self.params["steps"]:
            updates = self.run.position.updates
            asked = worker_count() == 1 or updates % AGREED_STEPS == 0
            end = asked and any(gather(self.told))
            if end or updates % self.every == 0:
                self.save(end)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.save(any(gather(self.told)))

    def save(self, end: bool) -> None:
        """Write the checkpoint, and end if any worker was told to: none can go on alone."""
        self.run.save(self.model)
        if end:
            raise ToldToEnd("told to end: all is saved; run the same command again to go on.")


def rates(correct: float, predicted: int, gold: int) -> dict[str, float | int]:
    """Return precision, recall and F1 of three counts; each is 0 where it has nothing to count."""
    return {
        "precision": float(correct / predicted) if predicted else 0.0,
        "recall": float(correct / gold) if gold else 0.0,
        "f1": float(2 * correct / (predicted + gold)) if predicted + gold else 0.0,
        "correct": int(correct) if correct == int(correct) else round(float(correct), 4),
        "predicted": int(predicted),
        "gold": int(gold),
    }


def best_threshold(scores: Sequence[float], hits: Sequence[float], gold: int) -> float:
    """Return the threshold with the best F1 when what scores above it is kept.

    Every threshold that makes a difference is tried. Of several that are equally good the one
    nearest to 0.5 is taken, and 0.5 itself where none is better.

    Args:
        scores: of everything in reach `[items]`, from 0 to 1.
        hits: how right each of them is `[items]`, 0 or 1 or what the metric gives in between.
        gold: how many items should be found, those out of reach too.
    """
    if not len(scores):
        return 0.5
    values, kept, correct = count_above(scores, hits)
    f1 = 2 * correct / (kept + gold)
    lower = np.append(values[1:], 0.0)
    thresholds = lower + (values - lower) / 2
    if f1.max() <= np.append(0.0, f1)[np.sum(values > 0.5)]:
        return 0.5
    # Halfway between neighbouring floats may round up to the upper one, which must be kept.
    thresholds = np.where(thresholds < values, thresholds, lower)
    equally_good = thresholds[f1 == f1.max()]
    return float(equally_good[np.argmin(np.abs(equally_good - 0.5))])


def count_above(scores: Sequence[float], hits: Sequence[float]) -> tuple[np.ndarray, ...]:
    """Return the distinct scores, highest first, how many are at least as high, and their hits."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    values, correct = np.asarray(scores)[order], np.cumsum(np.asarray(hits)[order])
    # Equal scores stand or fall together: only the last of each group is a place to cut.
    cuts = np.flatnonzero(np.append(values[1:] < values[:-1], True))
    return values[cuts], cuts + 1, correct[cuts]


def precision_recall(
    scores: Sequence[float], hits: Sequence[float], gold: int, threshold: float, most: int = 40
) -> list[list[float]]:
    """Return `[threshold, precision, recall]` of what is kept, for the report.

    The first row is of what scores above `threshold`, others of what scores at least as much as
    each of `most` scores, evenly spread. Other arguments as in `best_threshold`.
    """
    if not len(scores):
        return []
    values, kept, correct = (np.append(0, numbers) for numbers in count_above(scores, hits))
    places = np.unique(np.linspace(1, len(values) - 1, most).astype(int))
    places = np.append(np.sum(values[1:] > threshold), places)
    rows = np.stack([values, correct / np.maximum(kept, 1), correct / max(gold, 1)], axis=1)[places]
    rows[0, 0] = threshold
    return rows.round(4).tolist()


def print_rates(title: str, rows: dict[str, dict]) -> None:
    """Print precision, recall and F1 of labels, under a title that says what a label is."""
    print(f"{title:<32}{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}")
    for label, row in rows.items():
        numbers = "".join(f"{row[name]:>10.4f}" for name in ("precision", "recall", "f1"))
        print(f"{label:<32}{numbers}{row['gold']:>8}")
