"""The training step: the same weights on any number of replicas, with or without micro-batches."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from core.exact.dropout import dropout_masks, number_rows
from core.exact.logits import Logits
from core.exact.loss_means import LossMeans
from core.exact.loss_scale import gradients_of
from core.exact.micro_batches import Gradients, graph_of
from core.fast.layer_programs import LayerPrograms, call_in_parts, compiled_layers

# What a batch holds besides the inputs of the model: the weight of each example in the loss, and
# its row in the batch over all replicas, which seeds dropout.
NOT_INPUTS = ("loss_weight", "row")


@keras.saving.register_keras_serializable("common")
class TrainingModel(keras.Model):
    """A functional model whose outputs are losses `[batch]`, one for each loss layer.

    The generator gives each example its `loss_weight`, normalised over the batch of all replicas:
    weight of the record / examples, or / target tokens where losses are sums over tokens. The loss
    is the weighted sum: gradients summed over replicas or micro-batches are those of the batch.
    """

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer,
        accumulation: int = 1,
        xla: bool = False,
        make_gradients: "Callable[[TrainingModel], Callable[[dict], Gradients]] | None" = None,
        **kwargs: Any,
    ) -> None:
        """Configure the step.

        Args:
            optimizer: built here, so that a checkpoint finds all its variables.
            accumulation: micro-batches in one step: memory of one, gradient of all.
            xla: compile each layer with XLA, once for each length of a batch.
            make_gradients: called with this model, returns the function that `train_step` calls
                in the place of `gradients`, such as that of an adversary; None: `gradients`.
            **kwargs: as in `keras.Model.compile`.
        """
        super().compile(optimizer, jit_compile=False, auto_scale_loss=False, **kwargs)
        optimizer.build(self.trainable_variables)
        self.accumulation, self.programs = accumulation, LayerPrograms(xla)
        # What `fit` prints: the sum, and each loss if there are several.
        names = ["loss", *(self.output_names if len(self.output_names) > 1 else ())]
        self.loss_means = LossMeans(names)
        # A tf.function of `gradients`, which loops over micro-batches if there are several.
        plain = graph_of(self, self.gradients, ["loss", *self.output_names])
        self.batch_gradients = make_gradients(self) if make_gradients else plain

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_means] if hasattr(self, "loss_means") else []

    def train_step(self, batch: dict) -> dict:
        """Update the weights by one batch; `fit` calls this in each replica."""
        gradients, losses = self.batch_gradients(number_rows(batch))
        self.optimizer.apply(gradients, self.trainable_variables)  # sums over replicas, clips
        counted = tf.cast(batch["loss_weight"] > 0, tf.float32)  # the printed mean is unweighted
        self.loss_means.update_state(losses, counted)
        # Shape (1,): over several workers Keras averages the replicas' logs along the first axis.
        return {name: mean[None] for name, mean in self.loss_means.result().items()}

    def gradients(self, batch: dict) -> Gradients:
        """Return the gradient of the weighted loss, and the losses `[batch]` by name."""
        with tf.GradientTape() as tape, dropout_masks(self, batch), compiled_layers(self):
            losses = self(inputs_of(batch), training=True)
            total = tf.add_n([tf.cast(loss, tf.float32) for loss in losses.values()])
            loss = tf.reduce_sum(total * batch["loss_weight"])
        return self.by_variables(loss, tape), {"loss": total, **losses}

    def call(self, inputs: dict, training: Any = None, mask: Any = None) -> dict:
        """Return what `keras.Model` returns; with XLA what follows the encoder is one program."""
        return call_in_parts(self, super().call, inputs, training)

    def by_variables(self, loss: tf.Tensor, tape: tf.GradientTape) -> list[tf.Tensor]:
        """Return the gradient of a loss with respect to each trainable variable, dense."""
        return gradients_of(self, loss, tape)

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Skip Keras's trial call when `fit` begins: it would pass `loss_weight` to the model."""


def inputs_of(batch: dict) -> dict:
    """Return the part of a batch that the inputs of the model read."""
    return {name: array for name, array in batch.items() if name not in NOT_INPUTS}


@dataclass(frozen=True)
class Models:
    """What a task builds on an encoder: two models over the same layers.

    Training the first trains the second.

    Attributes:
        training: its outputs are losses `[batch]`.
        inference: its outputs are decoded to predictions.
        encoder: both share its layers.
        compared: logits that R-Drop and the like compare between two passes; empty: none.
        learning_rates: name of a layer -> learning rate of its variables, if it has its own.
    """

    training: TrainingModel
    inference: keras.Model
    encoder: keras.Model
    compared: tuple[Logits, ...] = ()
    learning_rates: dict[str, float] = field(default_factory=dict)

    @property
    def encoder_inputs(self) -> list[str]:
        """Names of the encoder's inputs, which every batch has."""
        return [tensor.name for tensor in self.encoder.inputs]
