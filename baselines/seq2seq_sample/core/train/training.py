"""The training step: exact on any number of replicas, with micro-batches and clipping."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from core.model.dropout import Masks

# What a batch holds besides the inputs of the model: the weight of each example in the loss, and
# its place in the batch over all replicas, which dropout depends on.
NO_INPUTS = ("loss_weight", "row")
Gradients = tuple[list[tf.Tensor], dict[str, tf.Tensor]]


@dataclass(frozen=True)
class Scores:
    """Logits of a model, for what compares two passes through it.

    Attributes:
        logits: a tensor of the model `[batch, ...]`.
        kind: `sigmoid`: each is a question of its own; `softmax` over the last axis;
            `softmax_of_all` over all axes of an example.
        labels: name of the input `[batch, positions]` that is below 0 where nothing is predicted.
    """

    logits: keras.KerasTensor
    kind: str
    labels: str = ""


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
        make_gradients: "Callable[[TrainingModel], Callable[[dict], Gradients]] | None" = None,
        **kwargs: Any,
    ) -> None:
        """Configure the step.

        Args:
            optimizer: built here, so that a checkpoint finds all its variables.
            accumulation: micro-batches in one step: memory of one, gradient of all.
            compile_gradients: compile the gradient with XLA, once for each shape of a batch.
            make_gradients: from this model to a function of a batch, which returns what
                `gradients` does; None: the plain gradient.
            **kwargs: as in `keras.Model.compile`.
        """
        # Only the gradient: XLA can't compile the sum over replicas on a CPU.
        super().compile(optimizer, jit_compile=False, **kwargs)
        optimizer.build(self.trainable_variables)
        self.accumulation = accumulation
        self.compile_gradients = compile_gradients
        names = ["loss", *(self.output_names if len(self.output_names) > 1 else ())]
        # Means over examples, kept as sums: right on a ragged last batch too.
        self.loss_means = [keras.metrics.Mean(name, dtype="float32") for name in names]
        plain = self.graph_of(self.gradients, ["loss", *self.output_names])
        self.batch_gradients = make_gradients(self) if make_gradients else plain

    def graph_of(self, function: Callable, names: list[str]) -> Callable:
        """Return the graph of a function of a batch, computed in micro-batches where asked.

        Args:
            function: from a batch, and what else it takes, to the gradient by each variable and to
                arrays `[batch]` by name.
            names: of these arrays.
        """

        # TensorFlow's own functions take no `**`.
        def batch_gradients(batch: dict, others: dict | None = None) -> Gradients:
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
    def metrics(self) -> list[keras.metrics.Metric]:
        return getattr(self, "loss_means", [])

    def gradients(self, batch: dict) -> Gradients:
        """Return the gradient of the weighted loss, and the losses `[batch]` by name."""
        with tf.GradientTape() as tape, self.masks_of(batch):
            losses = self(inputs_of(batch), training=True)
            total = tf.add_n([tf.cast(loss, tf.float32) for loss in losses.values()])
            loss = tf.reduce_sum(total * batch["loss_weight"])
        return self.by_variables(loss, tape), {"loss": total, **losses}

    def masks_of(self, batch: dict, number: int = 0) -> contextlib.AbstractContextManager[None]:
        """Let dropout draw the masks of this step for the rows of a batch; `number` of the pass."""
        if "row" not in batch:  # nobody trains: a gradient is looked at
            return contextlib.nullcontext()
        return Masks(self.optimizer.iterations.value, batch["row"], number).drawn()

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
    ) -> Gradients:
        """Return what a function returns, holding the activations of one micro-batch at a time.

        Args:
            function: as in `graph_of`, and `names`; it takes all `others` with each micro-batch.
        """
        micro_batches = {
            name: tf.reshape(array, [self.accumulation, -1, *tf.unstack(tf.shape(array))[1:]])
            for name, array in batch.items()
        }
        sums = [tf.zeros(variable.shape, tf.float32) for variable in self.trainable_variables]
        losses = {name: tf.TensorArray(tf.float32, size=self.accumulation) for name in names}

        def add(index: tf.Tensor, sums: list, losses: dict) -> tuple:
            micro_batch = {name: array[index] for name, array in micro_batches.items()}
            for name, array in batch.items():
                micro_batch[name] = tf.ensure_shape(micro_batch[name], [None, *array.shape[1:]])
            gradients, micro_losses = function(micro_batch, **others)
            sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
            losses = {name: losses[name].write(index, micro_losses[name]) for name in losses}
            return index + 1, sums, losses

        _, sums, losses = tf.while_loop(
            lambda index, *_: index < self.accumulation,
            add,
            (0, sums, losses),
            maximum_iterations=self.accumulation,
            parallel_iterations=1,
        )
        return sums, {name: array.concat() for name, array in losses.items()}

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Skip the trial call of `fit`, which takes the whole batch for inputs: all is built."""

    def train_step(self, batch: dict) -> dict:
        """Update the weights by one batch; called by `fit` in each replica."""
        gradients, losses = self.batch_gradients(place_rows(batch))
        self.optimizer.apply(gradients, self.trainable_variables)
        counted = tf.cast(batch["loss_weight"] > 0, tf.float32)
        for mean in self.loss_means:
            mean.update_state(losses[mean.name], counted)
        # `[1]`: over several workers Keras averages the replicas' logs along their first axis.
        return {mean.name: mean.result()[None] for mean in self.loss_means}


def place_rows(batch: dict) -> dict:
    """Return the batch of a replica with `row` `[batch]`: where its examples stand in the whole."""
    rows = tf.shape(batch["loss_weight"])[0]
    context = tf.distribute.get_replica_context()
    return {**batch, "row": context.replica_id_in_sync_group * rows + tf.range(rows)}


def inputs_of(batch: dict) -> dict:
    """Return what of a batch the inputs of the model read."""
    return {name: array for name, array in batch.items() if name not in NO_INPUTS}


@dataclass(frozen=True)
class Models:
    """What a task builds on an encoder: two models over the same layers.

    Training the first trains the second.

    Attributes:
        training: its outputs are losses `[batch]`.
        inference: its outputs are what is decoded.
        encoder: whose layers both share.
        scores: logits by which two passes through the model are compared; none: they depend on
            each other.
        rates: name of a layer -> learning rate of its variables, whatever holds for others.
    """

    training: TrainingModel
    inference: keras.Model
    encoder: keras.Model
    scores: tuple[Scores, ...] = ()
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def encoder_inputs(self) -> list[str]:
        """The names of the encoder's inputs, which every batch has."""
        return [tensor.name for tensor in self.encoder.inputs]
