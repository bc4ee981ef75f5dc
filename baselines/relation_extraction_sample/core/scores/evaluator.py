"""The callback that scores dev by the task's metric and keeps the best weights."""

import functools
import math
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.files import append_json_line, delete, write_json_lines, write_whole
from core.base.workers import is_chief
from core.batches import DataGenerator
from core.prediction.predictor import Predictor
from core.runs.manifest import note_files
from core.runs.provenance import provenance
from core.runs.scores import change_scores, read_scores
from core.scores.evaluation import Evaluation, OwnWeights

if TYPE_CHECKING:
    from core.training import Training


class Evaluator(keras.callbacks.Callback):
    """Score dev each epoch or every N steps; keep the best; stop when nothing improves.

    Args:
        training: its scorer scores dev, and the score named `monitor` chooses the best weights. Its
            run receives metrics.jsonl, scores.json, these weights and their predictions.
    """

    def __init__(self, training: "Training") -> None:
        super().__init__()
        self.training, self.run, self.monitor = training, training.run, training.monitor
        self.inference_model, self.facts = training.models.inference, provenance(training.settings)
        self.evaluate_steps = training.settings.evaluate_steps
        self.patience = training.settings.patience
        before = read_scores(self.run.folder).get("monitor", self.monitor)  # of a resumed run
        if before != self.monitor:
            raise InputError(
                f"the run {self.run.folder.name} was begun with {before}, not {self.monitor}, as "
                "the score that decides: go on with that, choose another --run_name, or begin anew "
                "with --overwrite true."
            )
        self.writer = tf.summary.create_noop_writer()
        if is_chief():
            self.writer = tf.summary.create_file_writer(str(self.run.folder / "tensorboard"))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.since = (time.perf_counter(), self.run.position.updates)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self.is_due():
            self.score(logs)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if not self.is_due():  # else the last step of the epoch was scored already
            self.score(logs)

    def is_due(self) -> bool:
        """Return whether dev is scored after this step, not only at the end of the epoch."""
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
            half = keras.config.dtype_policy().name == "mixed_float16"  # T5 and Gemma overflow it
            other = ", or set devices.precision = float32" if half else ""
            raise InputError(
                f"the loss or the weights are not finite after {position.updates} steps: lower "
                f"learning_rate or raise warm_up{other}, and begin anew with --overwrite true."
            )
        with self.training.kept_weights.scored_weights(self.model):
            evaluation = self.training.scorer.score_dev()
            self.keep_if_best(evaluation)
            score = evaluation.scores[self.monitor]
            self.training.kept_weights.add(self.inference_model, position.updates, score)
        batches, epoch_steps = self.training.batches, len(self.training.batches)
        tokens = getattr(batches, "mean_tokens", 0) * batches.batch_size
        row = {
            "epoch": position.epoch + (position.step and round(position.step / epoch_steps, 4)),
            "step": position.updates,
            # Within an epoch these are arrays `[1]`, at its end numbers.
            **{name: np.asarray(value).item() for name, value in (logs or {}).items()},
            "learning_rate": float(self.model.optimizer.learning_rate),
            "examples_per_second": steps * batches.batch_size / seconds,
            **({"tokens_per_second": steps * tokens / seconds} if tokens else {}),
            **{f"dev_{k}": v for k, v in evaluation.scores.items() if isinstance(v, int | float)},
            **evaluation.scores.get("beside", {}),
        }
        # JSON has only finite numbers, and a perplexity may be infinite.
        row = {name: value for name, value in row.items() if math.isfinite(value)}
        append_json_line(self.run.folder / "metrics.jsonl", row)
        with self.writer.as_default(step=position.updates):
            for name, value in row.items():
                tf.summary.scalar(name, value)
        self.writer.flush()
        if logs is not None:
            logs[f"dev_{self.monitor}"] = score
        # Keras shows the score of an epoch's end, unless that was scored as a step.
        due = [f"step {position.updates}: dev_{self.monitor} {score:.4f}\n"] * self.is_due()
        print(*(f"\n{text}" for text in [*evaluation.shown, *due]), sep="", end="")
        self.since = (time.perf_counter(), position.updates)

    def finish(self) -> None:
        """Score the final average of weights, if there is one; keep it if it is the best."""
        if steps := self.training.kept_weights.average(self.inference_model):
            evaluation = self.training.scorer.score_dev()
            self.keep_if_best(evaluation, averaged_steps=steps)
            score = evaluation.scores[self.monitor]
            print(f"average of the weights after {steps} steps: {self.monitor} {score:.4f}")

    def keep_if_best(self, evaluation: Evaluation, **facts: Any) -> None:
        """Write weights, predictions, scores and `facts` if no score so far is better.

        Raises:
            InputError: there is no such score, or it is not a number.
        """
        if self.monitor not in evaluation.scores:
            known = ", ".join(n for n, own in evaluation.scores.items() if isinstance(own, float))
            raise InputError(
                f"dev has no score {self.monitor} (it has {known}): correct this name. Or dev_file "
                f"has no gold that {self.monitor} can be computed on, such as a label of "
                "train_file: name another dev_file; python check.py says more."
            )
        if math.isnan(evaluation.scores[self.monitor]):
            raise InputError(
                f"dev {self.monitor} is NaN: no weights could be chosen by it. Let the function "
                "that computes it return a number, also if nothing is predicted."
            )
        position, score = self.run.position, evaluation.scores[self.monitor]
        best, loss = position.best, position.still_loss
        if self.is_best(score):
            position.best = score
            folder = self.run.folder
            note_files(folder, "best.weights.h5", stay=False)  # a kill must not leave a wrong hash
            write_whole(folder / "best.weights.h5", self.inference_model.save_weights)
            note_files(folder, "best.weights.h5")
            write_json_lines(folder / "predictions" / "dev.jsonl", evaluation.predictions)
            # Scores and predictions of other files belong to the previous weights.
            for path in (folder / "predictions").glob("*"):
                if path.name != "dev.jsonl":
                    delete(path)
            scores = {**self.facts, "monitor": self.monitor, **facts, "dev": evaluation.scores}
            change_scores(folder, lambda _: scores)
        gained = score > best or position.still_loss < loss  # a loss is NaN if the score chooses
        position.waited = 0 if gained else position.waited + 1
        if self.patience and position.waited >= self.patience:
            self.training.models.training.stop_training = True
            position.stopped = True

    def is_best(self, score: float) -> bool:
        """Return whether these weights are to be kept: of equal scores the latest are.

        As long as the score has never changed, the loss of dev chooses (not computed for a first
        score other than 0, so an equal second one is kept). A score that changes chooses alone.
        """
        position = self.run.position
        if -math.inf < position.best != score:
            position.still_loss = math.nan  # the score moves: from now on it chooses
        if math.isnan(position.still_loss) or (score and position.best == -math.inf):
            return score >= position.best
        # Nothing is left to choose, unless an average is scored at the end.
        last = position.updates >= self.training.last_step
        if position.best == -math.inf and last and type(self.training.kept_weights) is OwnWeights:
            return True
        before, loss = position.still_loss, self.dev_loss()
        position.still_loss = min(before, loss)
        return loss <= before

    @functools.cached_property
    def losses(self) -> Predictor:
        """Return what computes the losses of dev, compiled once for all epochs."""
        predictor = Predictor([self.training.models.training], self.training.strategy)
        predictor.exact = False  # its batches have the padded lengths of training
        return predictor

    def dev_loss(self) -> float:
        """Return the mean loss of dev without dropout; infinite: dev has no labelled batches."""
        batches = self.labelled_batches
        if batches is None or not batches.size:  # no gold of dev can be learned
            return math.inf
        found = self.losses.decode(batches, lambda _, own: [*np.sum([*own.values()], axis=0)])
        return float(np.mean([loss for _, loss in found]))

    @functools.cached_property
    def labelled_batches(self) -> DataGenerator | None:
        """Return batches of dev with labels; None: of packed rows, or of a corpus."""
        training, batches = self.training, self.training.batches
        if not batches.arguments:
            return None
        return batches.of(training.scorer.batches.examples, *batches.arguments)
