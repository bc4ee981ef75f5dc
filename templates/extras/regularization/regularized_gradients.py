"""The gradient of a batch with penalty, adversaries and R-Drop, equal on any replicas."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from core.exact.dropout import dropout_masks, with_row_numbers
from core.exact.micro_batches import Gradients, graph_of
from core.fast.layer_programs import compiled_layers
from core.step import Logits, inputs_of
from extras.regularization.regularization import Regularization, divergence
from extras.regularization.unlabelled import UNLABELLED

# Passes through the model with their own dropout masks. All other passes of an update use the masks
# of the first, so penalty, attack and training apply to one network.
SECOND_PASS, VIRTUAL_PASS = 1, 2


class RegularizedGradients:
    """Replaces the plain gradient of a training step; called in each replica.

    Args:
        model: a `TrainingModel`.
        regularization: its parts.
    """

    def __init__(self, model: keras.Model, regularization: Regularization) -> None:
        self.model = model
        self.regularization = regularization
        logits = [scores.logits for scores in regularization.scores]
        # Other models over the same layers, stored here because the training model has each layer
        # once.
        outputs = {"losses": model.output, "scores": logits}
        # Dropout samples of the head have a function of their own for both.
        self.scored: Any = getattr(model, "samples", None) or keras.Model(model.input, outputs)
        self.inputs = {
            tensor.name: tensor
            for logit in logits
            for tensor in keras.utils.get_source_inputs(logit)
        }
        self.scores: Any = keras.Model(self.inputs, logits) if logits else None
        names = ["loss", *model.loss_names]
        self.loss_gradients = graph_of(model, self.gradients_of_losses, names)
        self.change_gradients = graph_of(model, self.gradients_of_change, ["change"])

    def __call__(self, batch: dict) -> Gradients:
        """Return the gradient by each variable, and the losses `[batch]` by name.

        Args:
            batch: by the names of the inputs, `loss_weight` and `unlabelled/...`.
        """
        batch, unlabelled = split_unlabelled(batch)
        gradients, losses = self.with_labels(batch)
        if self.regularization.virtual_adversary:
            others = self.without_labels(with_row_numbers(unlabelled) if unlabelled else batch)
            gradients = [one + other for one, other in zip(gradients, others, strict=True)]
        return gradients, losses

    def with_labels(self, batch: dict) -> tuple[list, dict]:
        """Return the gradient of the losses with penalty and adversary, and the losses."""
        adversary, penalty = self.regularization.adversary, self.regularization.gradient_penalty
        gradients, losses = self.loss_gradients(batch)
        shifts = self.shifts_of_kernels(gradients)
        if adversary or penalty:
            slope = self.slope(gradients)
        if penalty:
            gradients, losses = self.loss_gradients(batch, {"direction": slope})
        if adversary:
            shift = tf.zeros_like(slope)
            for _ in range(adversary.steps):
                shift = adversary.move(shift, slope)
                shifted, _ = self.loss_gradients(batch, {"shift": shift})
                slope = self.slope(shifted)
            gradients = mean_of(gradients, shifted)
        if shifts:
            shifted, _ = self.loss_gradients(batch, shifts)
            gradients = mean_of(gradients, shifted)
        return gradients, losses

    def shifts_of_kernels(self, gradients: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the shift of each kernel, by its number; empty: kernels stay where they are."""
        adversary = self.regularization.weight_adversary
        if adversary is None:
            return {}
        slopes = [self.own_gradient(gradients, kernel) for kernel in adversary.kernels]
        pairs = zip(adversary.kernels, summed(slopes), strict=True)
        return {
            f"kernel_{number}": adversary.shift(kernel.value, slope)
            for number, (kernel, slope) in enumerate(pairs)
        }

    def without_labels(self, batch: dict) -> list[tf.Tensor]:
        """Return the gradient of the (nearly) largest change of scores by a shift."""
        adversary: Any = self.regularization.virtual_adversary
        shape = self.regularization.embeddings.shape
        noise = adversary.first_shift(shape, self.model.optimizer.iterations.value)
        gradients, _ = self.change_gradients(batch, {"shift": noise})
        shift = adversary.reach(self.slope(gradients))
        return self.change_gradients(batch, {"shift": shift})[0]

    def gradients_of_losses(
        self, batch: dict, others: dict[str, tf.Tensor] | None = None
    ) -> tuple[list, dict]:
        """Return the gradient of the weighted loss, and the losses `[batch]` by name.

        Args:
            batch: by the names of the inputs, and `loss_weight`.
            others: `shift`, added to the embedding table; those of `shifts_of_kernels`; or
                `direction`, the gradient by the embedding table, along which the penalty goes.
        """
        others = others or {}
        direction = others.get("direction")
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                total, losses = self.losses(batch, others)
                loss = tf.reduce_sum(total * batch["loss_weight"])
            if direction is not None:
                # Half the square of g has the derivative g g'. The first g is already summed over
                # replicas and micro-batches, so the product is too.
                table = self.regularization.embeddings.value
                slope = tf.convert_to_tensor(inner.gradient(loss, table))
                penalty = tf.reduce_sum(tf.stop_gradient(direction) * slope)
                loss += self.regularization.gradient_penalty * penalty
        return self.model.gradient_of(loss, tape), {"loss": total, **losses}

    def losses(self, batch: dict, shifts: dict[str, tf.Tensor]) -> tuple[tf.Tensor, dict]:
        """Return the loss of each example `[batch]`, and its parts by name."""
        inputs = inputs_of(batch)

        def read() -> dict:
            with compiled_layers(self.model):
                return self.scored(inputs, training=True)

        with dropout_masks(self.model, batch):
            first = self.shifted(read, shifts)
        losses = first["losses"]
        if not self.regularization.r_drop:
            return add_up(losses), losses
        with dropout_masks(self.model, batch, SECOND_PASS):
            again = self.shifted(read, shifts)
        losses = {name: 0.5 * (loss + again["losses"][name]) for name, loss in losses.items()}
        distance = self.distance(first["scores"], again["scores"], inputs)
        return add_up(losses) + 0.25 * self.regularization.r_drop * distance, losses

    def gradients_of_change(self, batch: dict, others: dict[str, tf.Tensor]) -> tuple[list, dict]:
        """Return the gradient of how far a shift moves the scores, and that itself `[batch]`.

        Args:
            batch: inputs, labels or none, and `loss_weight`.
            others: `shift`, added to the embedding table, while the scores without it stand still.
        """
        adversary: Any = self.regularization.virtual_adversary
        inputs = {name: batch[name] for name in self.inputs}

        def read() -> list:
            with compiled_layers(self.model):
                return tf.nest.flatten(self.scores(inputs, training=True))

        # The same dropout twice: the shift alone is what moves the scores.
        with dropout_masks(self.model, batch, VIRTUAL_PASS):
            here = [tf.stop_gradient(score) for score in read()]
        with tf.GradientTape() as tape, dropout_masks(self.model, batch, VIRTUAL_PASS):
            change = self.distance(here, self.shifted(read, others), batch)
            loss = tf.reduce_sum(change * batch["loss_weight"])
            loss *= adversary.weight
        return self.model.gradient_of(loss, tape), {"change": change}

    def distance(self, one: list, other: list, batch: dict) -> tf.Tensor:
        """Return the divergence of the scores of two passes `[batch]`."""
        triples = zip(self.regularization.scores, one, other, strict=True)
        return tf.add_n(
            [divergence(a, b, scores.kind, used(scores, batch)) for scores, a, b in triples]
        )

    def shifted(self, read: Callable, shifts: dict[str, tf.Tensor]) -> Any:
        """Return what is read while embeddings or kernels are shifted."""
        adversary = self.regularization.weight_adversary
        variables = {"shift": self.regularization.embeddings}
        for number, kernel in enumerate(adversary.kernels if adversary else ()):
            variables[f"kernel_{number}"] = kernel
        moved = [
            (variable, variable.value + shifts[name])
            for name, variable in variables.items()
            if name in shifts
        ]
        if not moved:
            return read()
        # No assignment: a single replica can't assign, and undoing it would not be exact.
        with keras.StatelessScope(state_mapping=moved):
            return read()

    def slope(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the gradient by the embedding table, summed over all replicas."""
        return summed([self.own_gradient(gradients, self.regularization.embeddings)])[0]

    def own_gradient(self, gradients: list[tf.Tensor], variable: Any) -> tf.Tensor:
        """Return the gradient by one variable."""
        variables = [id(own) for own in self.model.trainable_variables]
        return gradients[variables.index(id(variable))]


def summed(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return tensors summed over all replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def mean_of(first: list[tf.Tensor], second: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return the mean of two gradients, variable by variable."""
    return [0.5 * (one + other) for one, other in zip(first, second, strict=True)]


def used(scores: Logits, batch: dict) -> tf.Tensor | None:
    """Return `[batch, positions]`, false where nothing is predicted; None: something everywhere."""
    return batch[scores.labels] >= 0 if scores.labels else None


def add_up(losses: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return the sum of losses `[batch]`, in float32."""
    return tf.add_n([tf.cast(loss, tf.float32) for loss in losses.values()])


def split_unlabelled(batch: dict) -> tuple[dict, dict]:
    """Return the labelled and the unlabelled examples, each by the names of the inputs."""
    others = {name for name in batch if name.startswith(UNLABELLED)}
    return (
        {name: array for name, array in batch.items() if name not in others},
        {name.removeprefix(UNLABELLED): batch[name] for name in others},
    )
