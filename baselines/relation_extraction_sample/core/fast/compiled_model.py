"""What `compile` sets up for the training step: its graph, XLA, the losses that `fit` prints."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.exact.loss_scale import LossScale
from core.exact.micro_batches import Gradients, graph_of
from core.fast.layer_programs import LayerPrograms, call_in_parts


class LossMeans(keras.metrics.Metric):
    """Means of several losses over examples, kept as sums: right on a partial last batch too.

    A metric for each loss would start ten operations each, on a GPU slower than what they compute.

    Args:
        names: of the losses.

    Example:

    >>> means = LossMeans(["loss", "head_loss"])
    >>> losses = {"loss": tf.constant([3.0, 1.0, 9.0]), "head_loss": tf.constant([1.0, 0.0, 9.0])}
    >>> means.update_state(losses, counted=tf.constant([1.0, 1.0, 0.0]))
    >>> {name: float(mean) for name, mean in means.result().items()}
    {'loss': 2.0, 'head_loss': 0.5}
    """

    def __init__(self, names: list[str]) -> None:
        super().__init__(dtype="float32", name="losses")
        self.names = names
        self.sums = self.add_variable((len(names),), "zeros", name="sums")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, losses: dict[str, tf.Tensor], counted: tf.Tensor) -> Any:
        """Add the losses of a batch.

        Args:
            losses: `[batch]` by name; others than those of `names` are left out.
            counted: 1 for an example that counts, 0 for padding `[batch]`.
        """
        rows = tf.stack([tf.cast(losses[name], tf.float32) for name in self.names])
        self.sums.assign_add(tf.reduce_sum(rows * counted, axis=1))
        self.count.assign_add(tf.reduce_sum(counted))

    def result(self) -> dict[str, tf.Tensor]:
        """Return the mean of each loss by name."""
        means = tf.math.divide_no_nan(self.sums.value, self.count.value)
        return dict(zip(self.names, tf.unstack(means), strict=True))


class CompiledModel(keras.Model):
    """The part of `TrainingModel` that `compile` sets up: micro-batches, XLA, means of losses."""

    gradients: Callable[[dict], Gradients]
    loss_scale: LossScale | None = None

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
        self.loss_scale = getattr(optimizer, "loss_scale", None)
        self.accumulation, self.programs = accumulation, LayerPrograms() if xla else None
        self.loss_names = names = sorted(self.output)  # not `output_names`, which are of layers
        for name, loss in self.output.items():
            if len(loss.shape) != 1:
                raise InputError(
                    f"the loss {name} has the shape {loss.shape}, not [batch]: let its layer "
                    "return one number for each example, not a sum or mean over the batch."
                )
        # What `fit` prints: the sum, and each loss if there are several.
        self.loss_means = LossMeans(["loss", *(names if len(names) > 1 else ())])
        # A tf.function of `gradients`, which loops over micro-batches if there are several.
        plain = graph_of(self, self.gradients, ["loss", *names])
        self.batch_gradients = make_gradients(self) if make_gradients else plain

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [self.loss_means] if hasattr(self, "loss_means") else []

    def call(self, inputs: dict, training: Any = None, mask: Any = None) -> dict:
        """Return what `keras.Model` returns; with XLA what follows the encoder is one program."""
        return call_in_parts(self, super().call, inputs, training)

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Skip Keras's trial call when `fit` begins: it would pass `loss_weight` to the model."""
