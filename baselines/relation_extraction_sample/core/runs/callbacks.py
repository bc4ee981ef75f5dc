"""Callbacks that keep a run's position and write its checkpoints."""

import signal
import time
from types import FrameType

import keras

from core.base.errors import ToldToEnd
from core.base.settings import CoreSettings
from core.base.workers import all_workers
from core.runs.checkpoints import save_checkpoint
from core.runs.run import Run

AGREED_STEPS = 10  # every so many steps, several workers ask whether one was told to end


class PositionCounter(keras.callbacks.Callback):
    """Count epochs, steps and seconds in a run; place it before callbacks that read them."""

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
        if self.run.position.step == self.epoch_steps:  # else the training ends within it
            self.run.position.epoch, self.run.position.step = epoch + 1, 0


class Checkpoint(keras.callbacks.Callback):
    """Write all state every N steps and after each epoch; place it after the other callbacks.

    Only whole steps are written, because an interruption may come in the middle of an update.
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
        """Remember that the process was told to end; preemptible machines leave some seconds."""
        self.told = True

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        # The last step of an epoch is written by `on_epoch_end`, after its scores.
        if batch + 1 < self.params["steps"]:
            updates = self.run.position.updates
            asked = all_workers().count == 1 or updates % AGREED_STEPS == 0
            end = asked and any(all_workers().gather(self.told))
            if end or updates % self.every == 0:
                self.save(end)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.save(any(all_workers().gather(self.told)))

    def save(self, end: bool) -> None:
        """Write the checkpoint, and end if any worker was told to: all must end together."""
        save_checkpoint(self.run.folder, self.run.position, self.model)
        if end:
            raise ToldToEnd("told to end: all is saved; run the same command again to go on.")


class EpochsOfTraining(keras.callbacks.ProgbarLogger):
    """Show the epochs of the whole training, of which a call of `fit` may be a part."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.all_epochs = epochs

    def set_params(self, params: dict) -> None:
        super().set_params({**params, "epochs": self.all_epochs})


class KeepLossSums(keras.callbacks.Callback):
    """Give back the loss sums of a resumed epoch, which `fit` resets as the epoch begins."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__()
        self.saved = [(v, v.numpy()) for metric in model.metrics for v in metric.variables]

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        for variable, value in self.saved:
            variable.assign(value)
