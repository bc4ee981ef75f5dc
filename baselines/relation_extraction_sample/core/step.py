"""The training step: the same weights on any number of replicas, with or without micro-batches."""

from dataclasses import dataclass, field

import keras
import tensorflow as tf

from core.exact.dropout import dropout_masks, with_row_numbers
from core.exact.logits import Logits
from core.exact.micro_batches import Gradients
from core.fast.compiled_model import CompiledModel
from core.fast.layer_programs import compiled_layers

# Keys of a batch that are not model inputs: the weight of each example in the loss, and its
# row in the batch over all replicas, which seeds dropout.
NOT_INPUTS = ("loss_weight", "row")


@keras.saving.register_keras_serializable("common")
class TrainingModel(CompiledModel):
    """A functional model whose outputs are losses `[batch]`, one for each loss layer.

    The generator gives each example a `loss_weight`: the weight of its record, divided by the
    number of examples or tokens in the whole batch, over all replicas. The loss is the sum of
    losses * `loss_weight`, so gradients are summed over replicas and micro-batches, not averaged.

    `compile` (core/fast/compiled_model.py) sets, among others, `batch_gradients`, a tf.function
    that sums `gradients` over micro-batches; `loss_means`, which `fit` prints; and `loss_scale`,
    which is None unless the layers compute in float16.
    """

    def train_step(self, batch: dict) -> dict:
        """Update the weights with one batch; `fit` calls this in each replica."""
        # `batch_gradients` calls `gradients` below, once or for each micro-batch.
        gradients, losses = self.batch_gradients(with_row_numbers(batch))
        self.optimizer.apply(gradients, self.trainable_variables)  # sums over replicas, and clips
        counted = tf.cast(batch["loss_weight"] > 0, tf.float32)  # 0 for filler; `fit` prints means
        self.loss_means.update_state(losses, counted)
        # Shape (1,): with several workers Keras's `reduce_per_replica` needs a first axis.
        return {name: mean[None] for name, mean in self.loss_means.result().items()}

    def gradients(self, batch: dict) -> Gradients:
        """Return the gradient of the weighted loss, and the losses `[batch]` by name."""
        with tf.GradientTape() as tape, dropout_masks(self, batch), compiled_layers(self):
            losses = self(inputs_of(batch), training=True)  # `[batch]` by name of the output
            total = tf.add_n([tf.cast(loss, tf.float32) for loss in losses.values()])
            weighted = tf.reduce_sum(total * batch["loss_weight"])
        return self.gradient_of(weighted, tape), {"loss": total, **losses}

    def gradient_of(self, loss: tf.Tensor, tape: tf.GradientTape) -> list[tf.Tensor]:
        """Return the gradient of a loss for each trainable variable, dense and in float32.

        With float16 the loss is multiplied by a scale, and its gradient divided by it.
        """
        scale = self.loss_scale.scale.value if self.loss_scale else None
        gradients = tape.gradient(
            loss,
            [variable.value for variable in self.trainable_variables],
            output_gradients=scale,  # the gradient of loss * scale
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # BERT's pooler, which no loss uses
        )
        # A token that occurs twice has two slices in the gradient of its embedding: sum them.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return dense if scale is None else [gradient / scale for gradient in dense]


def inputs_of(batch: dict) -> dict:
    """Return the inputs of the model in a batch."""
    return {name: array for name, array in batch.items() if name not in NOT_INPUTS}


@dataclass(frozen=True)
class Models:
    """What a task builds on an encoder: two models.

    `training` has all weights of `inference`, so fitting it trains both.

    Attributes:
        training: its outputs are losses `[batch]`.
        inference: its outputs are decoded to predictions.
        encoder: the encoder whose layers both share.
        compared: logits that extras/regularization compares between two passes, as R-Drop does.
        learning_rates: name of a layer of `training` -> learning rate of its variables.
    """

    training: TrainingModel
    inference: keras.Model
    encoder: keras.Model
    compared: tuple[Logits, ...] = ()
    learning_rates: dict[str, float] = field(default_factory=dict)

    @property
    def encoder_inputs(self) -> list[str]:
        """Names of the encoder's inputs."""
        return [tensor.name for tensor in self.encoder.inputs]
