"""Asynchronous training with parameter servers. Experimental: the numbers differ from run to run.

Servers hold the weights. Each worker takes a batch, reads the current weights, and writes its
update while the others write theirs. The chief distributes the batches, scores and saves. If a
worker is lost, another worker repeats its batch. Source:
https://www.tensorflow.org/tutorials/distribute/parameter_server_training.
"""

import functools
import itertools
from collections.abc import Callable

import keras
import tensorflow as tf

from core.base.settings import CoreSettings
from core.runs.run import Run
from core.step import TrainingModel
from core.training import Training


def fit_with_servers(training: Training, callbacks: list[keras.callbacks.Callback]) -> None:
    """Train from the run's position to the last epoch; between two stops in any order.

    Args:
        training: its model is compiled under the strategy of the chief. The loop waits for all
            workers every `evaluate_steps` and `checkpoint_steps`, and at the end of an epoch.
        callbacks: as in `keras.Model.fit`; they move the run's position on.
    """
    settings, run, model = training.settings, training.run, training.models.training
    train_batches, position, strategy = training.batches, run.position, model.distribute_strategy
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    add_at_once([model.optimizer.iterations, *model.loss_means.variables])

    @functools.cache
    def update_of(shapes: tuple) -> Callable[[dict], dict]:
        """Return the update for one batch shape, because the coordinator traces a function once."""
        return tf.function(lambda batch: strategy.run(model.train_step, args=(batch,)))

    calls = keras.callbacks.CallbackList(callbacks, model=model, steps=len(train_batches))
    run.forget_later_rows()
    model.stop_training = position.stopped
    calls.on_train_begin()
    last = training.last_step
    while position.updates < last and not model.stop_training:
        epoch = position.epoch
        if position.step == 0:
            model.reset_metrics()
        calls.on_epoch_begin(epoch)
        batches = train_batches.batches(epoch, position.step)
        steps = min(len(train_batches), position.step + last - position.updates)
        while position.step < steps and not model.stop_training:
            together = list(itertools.islice(batches, steps_to_next_stop(settings, run)))
            for batch in together:
                update = update_of(tuple(array.shape for array in batch.values()))
                coordinator.schedule(update, args=(batch,))
            coordinator.join()
            for _ in together:
                calls.on_train_batch_end(position.step, mean_losses(model))
        calls.on_epoch_end(epoch, mean_losses(model))
    calls.on_train_end()


def add_at_once(variables: list[keras.Variable]) -> None:
    """Let variables add in one operation on the server that has them.

    Keras reads a variable, and writes the sum: what another worker adds between both is lost. Five
    of seven steps were counted, and losses had wrong means.
    """
    for variable in variables:
        variable.assign_add = variable.value.assign_add


def steps_to_next_stop(settings: CoreSettings, run: Run) -> int:
    """Return how many batches may run until the next stop that waits for all workers."""
    updates = run.position.updates
    due = [settings.checkpoint_steps, settings.evaluate_steps, settings.steps]
    return min(every - updates % every for every in due if every)


def mean_losses(model: TrainingModel) -> dict[str, float]:
    """Return the means of the losses of this epoch so far by name."""
    return {name: float(mean) for name, mean in model.loss_means.result().items()}
