"""The training step: exact on any number of replicas, with micro-batches and clipping."""

import sys
from collections.abc import Callable

import keras
import tensorflow as tf

from common.cluster import is_chief
from common.generator import Generator
from common.recompute import recompute_layers
from common.regularization import Regularization
from common.regularized_gradients import RegularizedGradients
from common.run_folder import Position


@keras.saving.register_keras_serializable("common")
class MeanLoss(keras.metrics.Metric):
    """Mean of a loss over the examples of an epoch, from sums: right on a ragged last batch too."""

    def __init__(self, name="loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.examples = self.add_variable(shape=(), initializer="zeros", name="examples")

    def update_state(self, losses, weights):
        """Add the losses `[batch]` of all examples whose weight is not zero."""
        counted = tf.cast(weights > 0, tf.float32)
        self.total.assign_add(tf.reduce_sum(losses * counted))
        self.examples.assign_add(tf.reduce_sum(counted))

    def result(self):
        return tf.math.divide_no_nan(
            tf.convert_to_tensor(self.total), tf.convert_to_tensor(self.examples)
        )


@keras.saving.register_keras_serializable("common")
class TrainingModel(keras.Model):
    """A functional model whose outputs are losses `[batch]`, one for each loss layer.

    The generator gives each example its `loss_weight`; the weights of one batch over all replicas
    sum to 1, and the loss is the weighted sum. Gradients summed over replicas, or over
    micro-batches, are therefore those of the whole batch, full or ragged.
    """

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer,
        accumulation: int = 1,
        compile_gradients: bool = False,
        recompute: bool = False,
        regularization: Regularization | None = None,
        **kwargs,
    ):
        """Configure the step.

        Args:
            optimizer: built here, so that a checkpoint finds all its variables.
            accumulation: micro-batches in one step: memory of one, gradient of all.
            compile_gradients: compile the gradient with XLA, once for each shape of a batch.
            recompute: compute Transformer layers a second time instead of keeping their insides.
            regularization: what the gradient is besides that of the loss; None: nothing.
            **kwargs: as in `keras.Model.compile`.
        """
        # Only the gradient: XLA can't compile the sum over replicas on a CPU.
        super().compile(optimizer, jit_compile=False, **kwargs)
        optimizer.build(self.trainable_variables)
        if recompute:
            recompute_layers(self)
        self.accumulation = accumulation
        self.compile_gradients = compile_gradients
        self.regularization = regularization
        self.loss_means = [MeanLoss("loss")] + [
            MeanLoss(name) for name in self.output_names if len(self.output_names) > 1
        ]
        if regularization is None:
            self.batch_gradients = self.graph_of(self.gradients, ["loss", *self.output_names])
        else:
            self.batch_gradients = RegularizedGradients(self, regularization)

    def graph_of(self, function: Callable, names: list[str]) -> Callable:
        """Return the graph of a function of a batch, computed in micro-batches where asked.

        Args:
            function: from a batch, and what else it takes, to the gradient by each variable and to
                arrays `[batch]` by name.
            names: of these arrays.
        """

        # TensorFlow's own functions take no `**`.
        def batch_gradients(batch: dict, others: dict | None = None) -> tuple[list, dict]:
            if self.accumulation == 1:
                return function(batch, **(others or {}))
            return self.sum_micro_batches(function, names, batch, others or {})

        return tf.function(
            batch_gradients,
            jit_compile=self.compile_gradients or None,
            reduce_retracing=not self.compile_gradients,
            autograph=False,
        )

    @property
    def metrics(self):
        return getattr(self, "loss_means", [])

    def gradients(self, batch: dict) -> tuple[list, dict]:
        """Return the gradient of the weighted loss, and the losses `[batch]` by name."""
        inputs = {name: array for name, array in batch.items() if name != "loss_weight"}
        with tf.GradientTape() as tape:
            losses = self(inputs, training=True)
            total = tf.add_n([tf.cast(loss, tf.float32) for loss in losses.values()])
            loss = tf.reduce_sum(total * batch["loss_weight"])
        return self.by_variables(loss, tape), {"loss": total, **losses}

    def by_variables(self, loss: tf.Tensor, tape: tf.GradientTape) -> list[tf.Tensor]:
        """Return the gradient of a loss by each variable that is trained."""
        gradients = tape.gradient(
            loss,
            [variable.value for variable in self.trainable_variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # BERT's pooler, for one
        )
        # Dense: a token that occurs twice is two slices, which a norm would count apart.
        return [tf.convert_to_tensor(gradient) for gradient in gradients]

    def sum_micro_batches(
        self, function: Callable, names: list[str], batch: dict, others: dict
    ) -> tuple[list, dict]:
        """Return what a function returns, holding the activations of one micro-batch at a time.

        Args:
            function: as in `graph_of`; `names` too.
            names: of the arrays.
            batch: of all examples.
            others: what else the function takes, the same for all micro-batches.
        """
        micro_batches = {
            name: tf.reshape(
                array, tf.concat([[self.accumulation, -1], tf.shape(array)[1:]], axis=0)
            )
            for name, array in batch.items()
        }
        sums = [tf.zeros(variable.shape, tf.float32) for variable in self.trainable_variables]
        losses = {name: tf.TensorArray(tf.float32, size=self.accumulation) for name in names}

        def add(index, sums, losses):
            micro_batch = {name: array[index] for name, array in micro_batches.items()}
            for name, array in batch.items():
                micro_batch[name] = tf.ensure_shape(micro_batch[name], [None, *array.shape[1:]])
            gradients, micro_losses = function(micro_batch, **others)
            sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
            losses = {
                name: array.write(index, micro_losses[name]) for name, array in losses.items()
            }
            return index + 1, sums, losses

        _, sums, losses = tf.while_loop(
            lambda index, *_: index < self.accumulation,
            add,
            (0, sums, losses),
            maximum_iterations=self.accumulation,
            parallel_iterations=1,
        )
        return sums, {name: array.concat() for name, array in losses.items()}

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Skip the trial call of `fit` under a strategy: everything is built already.

        It takes the whole batch, `loss_weight` too, for the inputs of the model.
        """

    def train_step(self, batch: dict) -> dict:
        """Update the weights by one batch; called by `fit` in each replica."""
        gradients, losses = self.batch_gradients(batch)
        self.optimizer.apply(gradients, self.trainable_variables)
        for mean in self.loss_means:
            mean.update_state(losses[mean.name], batch["loss_weight"])
        # `[1]`: over several workers Keras averages the replicas' logs along their first axis.
        return {mean.name: mean.result()[None] for mean in self.loss_means}


def fit(
    model: TrainingModel,
    generator: Generator,
    position: Position,
    epochs: int,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Train from a position on to the last epoch.

    Args:
        model: compiled.
        generator: of the training examples.
        position: where to begin; the callbacks move it on.
        epochs: of the whole training.
        callbacks: as in `keras.Model.fit`.
    """
    steps = len(generator)
    verbose = (1 if sys.stdout.isatty() else 2) if is_chief() else 0
    strategy = model.distribute_strategy
    if position.step:
        # An epoch that was interrupted has fewer steps left than all others.
        keep_sums = KeepLossSums(model)
        model.fit(
            generator.to_dataset(position.epoch, position.step, strategy),
            initial_epoch=position.epoch,
            epochs=position.epoch + 1,
            steps_per_epoch=steps - position.step,
            callbacks=[keep_sums, *callbacks],
            shuffle=False,
            verbose=verbose,
        )
        if model.stop_training:
            return
    if position.epoch < epochs and not position.stopped:
        model.fit(
            generator.to_dataset(position.epoch, strategy=strategy),
            initial_epoch=position.epoch,
            epochs=epochs,
            steps_per_epoch=steps,
            callbacks=callbacks,
            shuffle=False,
            verbose=verbose,
        )


class KeepLossSums(keras.callbacks.Callback):
    """Give back the loss sums of a resumed epoch, which `fit` resets as the epoch begins."""

    def __init__(self, model: TrainingModel):
        super().__init__()
        variables = [variable for metric in model.metrics for variable in metric.variables]
        self.saved = [(variable, variable.numpy()) for variable in variables]

    def on_epoch_begin(self, epoch, logs=None):
        for variable, value in self.saved:
            variable.assign(value)
