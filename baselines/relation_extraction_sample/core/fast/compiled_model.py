"""What `compile` sets up for the training step: its graph, XLA, the losses that `fit` prints."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from core.exact.loss_means import LossMeans
from core.exact.loss_scale import gradients_of
from core.exact.micro_batches import Gradients, graph_of
from core.fast.layer_programs import LayerPrograms, call_in_parts


class CompiledModel(keras.Model):
    """The part of `TrainingModel` that `compile` sets up: micro-batches, XLA, means of losses."""

    gradients: Callable[[dict], Gradients]

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer,
        accumulation: int = 1,
        xla: bool = False,
        make_gradients: "Callable[[CompiledModel], Callable[[dict], Gradients]] | None" = None,
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
        self.accumulation, self.programs = accumulation, LayerPrograms() if xla else None
        # What `fit` prints: the sum, and each loss if there are several.
        names = ["loss", *(self.output_names if len(self.output_names) > 1 else ())]
        self.loss_means = LossMeans(names)
        # A tf.function of `gradients`, which loops over micro-batches if there are several.
        plain = graph_of(self, self.gradients, ["loss", *self.output_names])
        self.batch_gradients = make_gradients(self) if make_gradients else plain

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_means] if hasattr(self, "loss_means") else []

    def call(self, inputs: dict, training: Any = None, mask: Any = None) -> dict:
        """Return what `keras.Model` returns; with XLA what follows the encoder is one program."""
        return call_in_parts(self, super().call, inputs, training)

    def gradient_of(self, loss: tf.Tensor, tape: tf.GradientTape) -> list[tf.Tensor]:
        """Return the gradient of a loss with respect to each trainable variable, dense."""
        return gradients_of(self, loss, tape)

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Skip Keras's trial call when `fit` begins: it would pass `loss_weight` to the model."""
