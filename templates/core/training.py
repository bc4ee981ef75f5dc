"""One object that holds every part of a training; its `fit` calls that of Keras."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import call_all
from core.base.files import write_json
from core.base.workers import is_chief
from core.batches import DataGenerator
from core.devices.gpu import describe_devices
from core.devices.precision import choose_programs
from core.devices.strategy import Strategy
from core.encoders.encoder import save_encoder
from core.exact.dropout import place_dropout
from core.fast.adamw import AdamW
from core.runs.callbacks import EpochsOfTraining, KeepLossSums, PositionCounter
from core.runs.checkpoints import restore_checkpoint
from core.runs.manifest import note_files
from core.runs.run import Run
from core.scores.evaluation import DevScorer, OwnWeights
from core.step import Models


@dataclass
class Training:
    """All parts of a training; an extra may replace any of them.

    Attributes:
        settings: of the project.
        strategy: the devices.
        run: its folder, and where to continue.
        models: of the task.
        batches: of the training examples.
        scorer: scores dev with the current weights.
        monitor: name of the score that chooses the best weights.
        optimizer_class: makes the optimizer; `optimizer_options` are further arguments.
        make_gradients: from the training model to its gradient; None: the plain one.
        kept_weights: which weights are scored and kept: the model's own, or averages.
        loop: trains in the place of Keras's `fit`; None: that trains.
        on_begin: called when the run's folder is there, before its checkpoint is restored.
    """

    settings: Any
    strategy: Strategy
    run: Run
    models: Models
    batches: DataGenerator
    scorer: DevScorer
    monitor: str
    optimizer_class: Callable[..., keras.optimizers.Optimizer] = AdamW
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    make_gradients: Callable | None = None
    kept_weights: OwnWeights = field(default_factory=OwnWeights)
    loop: "Callable[[Training, list], None] | None" = None
    on_begin: list[Callable[[], None]] = field(default_factory=list)

    @property
    def planned_steps(self) -> int:
        """Steps of all epochs: what the learning rate is planned for."""
        return self.settings.epochs * len(self.batches)

    @property
    def last_step(self) -> int:
        """The step after which the training ends; the setting `steps` may end it early."""
        return min(self.settings.steps or self.planned_steps, self.planned_steps)

    @property
    def compile_options(self) -> dict[str, Any]:
        """Arguments of `TrainingModel.compile` besides the optimizer."""
        return {
            "accumulation": self.settings.accumulation,
            "xla": self.settings.devices.xla is True,
            "make_gradients": self.make_gradients,
        }

    def prepare(self) -> None:
        """Check the batches, choose what XLA compiles, seed dropout, and call the extras."""
        self.batches.check_keys(self.models.training)
        choose_programs(self.settings, self.last_step, len(self.batches.boundaries))
        self.optimizer_options["xla"] = bool(self.settings.devices.xla)
        if is_chief():
            print(describe_devices(self.settings, self.strategy.num_replicas_in_sync))
        place_dropout(self.models.training, self.settings.seed)
        call_all("prepare", self)

    def begin(self, tokenizer: Tokenizer, labels: dict | None) -> None:
        """Create the run's folder, or restore the checkpoint of an interrupted run.

        Args:
            tokenizer: kept with the run, as the architecture of the encoder is.
            labels: what prediction needs besides the weights; None: nothing.
        """
        self.run.begin()
        save_encoder(self.run.folder, self.models.encoder, tokenizer)
        if labels is not None:
            write_json(self.run.folder / "labels.json", labels)
        made = ("config.json", "encoder.json", "tokenizer.json", "labels.json")
        note_files(self.run.folder, *made)
        for note in self.on_begin:
            note()
        restore_checkpoint(self.run.folder, self.run.position, self.models.training)
        self.refuse_other_replicas()

    def refuse_other_replicas(self) -> None:
        """Refuse to go on with other steps or learning rates than the training was begun with.

        Raises:
            InputError: they follow the number of replicas, which is another one now.
        """
        devices, position = self.settings.devices, self.run.position
        replicas = self.strategy.num_replicas_in_sync
        follows = devices.scale_learning_rate or devices.batch_size_counts == "one_replica"
        if follows and position.updates and position.replicas not in (0, replicas):
            raise InputError(
                f"{self.run.name} was begun on {position.replicas} replicas, and here are "
                f"{replicas}: batch_size_counts or scale_learning_rate makes that another "
                "training: go on with as many, or begin anew with --overwrite true."
            )
        position.replicas = replicas

    def fit(self, callbacks: list[keras.callbacks.Callback]) -> None:
        """Train from the run's position to the last step."""
        callbacks = [PositionCounter(self.run, len(self.batches)), *callbacks]
        with self.batches.own_errors():
            if self.loop:
                self.loop(self, callbacks)
                return
            self.run.forget_later_rows()  # all of them, if there was no checkpoint
            model, position, batches = self.models.training, self.run.position, self.batches
            verbose = (1 if sys.stdout.isatty() else 2) if is_chief() else 0
            model.stop_training = position.stopped
            callbacks = [*callbacks, EpochsOfTraining(-(-self.last_step // len(batches)))]
            while position.updates < self.last_step and not model.stop_training:
                # An interrupted epoch, and one that `steps` ends in, has fewer steps than others.
                left = self.last_step - position.updates
                steps = min(len(batches) - position.step, left)
                epochs = left // len(batches) if steps == len(batches) else 1
                model.fit(
                    batches.to_dataset(position.epoch, position.step, model.distribute_strategy),
                    initial_epoch=position.epoch,
                    epochs=position.epoch + epochs,
                    steps_per_epoch=steps,
                    callbacks=[*([KeepLossSums(model)] if position.step else []), *callbacks],
                    shuffle=False,
                    verbose=verbose,
                )
