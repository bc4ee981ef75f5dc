"""The gradient of a batch with penalty, adversaries and R-Drop, equal on any replicas."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from core.exact.dropout import dropout_masks, number_rows
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
        self.scored = keras.Model(model.input, {"losses": model.output, "scores": logits})
        self.inputs = {
            tensor.name: tensor
            for logit in logits
            for tensor in keras.utils.get_source_inputs(logit)
        }
        self.scores: Any = keras.Model(self.inputs, logits) if logits else None
        names = ["loss", *model.output_names]
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
            others = self.without_labels(number_rows(unlabelled) if unlabelled else batch)
            gradients = [one + other for one, other in zip(gradients, others, strict=True)]
        return gradients, losses

    def with_labels(self, batch: dict) -> tuple[list, dict]:
        """Return the gradient of the losses with penalty and adversary, and the losses."""
        adversary, penalty = self.regularization.adversary, self.regularization.gradient_penalty
        gradients, losses = self.loss_gradients(batch)
        if not adversary and not penalty:
            return gradients, losses
        slope = self.slope(gradients)
        if penalty:
            gradients, losses = self.loss_gradients(batch, {"direction": slope})
        if adversary:
            shift = tf.zeros_like(slope)
            for _ in range(adversary.steps):
                shift = adversary.move(shift, slope)
                shifted, _ = self.loss_gradients(batch, {"shift": shift})
                slope = self.slope(shifted)
            pairs = zip(gradients, shifted, strict=True)
            gradients = [0.5 * (one + other) for one, other in pairs]
        return gradients, losses

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
            others: `shift`, added to the embedding table, or `direction`, the gradient by the
                embedding table, along which the penalty goes.
        """
        shift, direction = ((others or {}).get(name) for name in ("shift", "direction"))
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                total, losses = self.losses(batch, shift)
                loss = tf.reduce_sum(total * batch["loss_weight"])
            if direction is not None:
                # Half the square of g has the derivative g g'. The first g is already summed over
                # replicas and micro-batches, so the product is too.
                table = self.regularization.embeddings.value
                slope = tf.convert_to_tensor(inner.gradient(loss, table))
                penalty = tf.reduce_sum(tf.stop_gradient(direction) * slope)
                loss += self.regularization.gradient_penalty * penalty
        return self.model.by_variables(loss, tape), {"loss": total, **losses}

    def losses(self, batch: dict, shift: tf.Tensor | None) -> tuple[tf.Tensor, dict]:
        """Return the loss of each example `[batch]`, and its parts by name."""
        inputs = inputs_of(batch)

        def read() -> dict:
            with compiled_layers(self.model):
                return self.scored(inputs, training=True)

        with dropout_masks(self.model, batch):
            first = self.shifted(read, shift)
        losses = first["losses"]
        if not self.regularization.r_drop:
            return add_up(losses), losses
        with dropout_masks(self.model, batch, SECOND_PASS):
            again = self.shifted(read, shift)
        losses = {name: 0.5 * (loss + again["losses"][name]) for name, loss in losses.items()}
        distance = self.distance(first["scores"], again["scores"], inputs)
        return add_up(losses) + 0.25 * self.regularization.r_drop * distance, losses

    def gradients_of_change(self, batch: dict, others: dict[str, tf.Tensor]) -> tuple[list, dict]:
        """Return the gradient of how far a shift moves the scores, and that itself `[batch]`.

        Args:
            batch: inputs, labels or none, and `loss_weight`.
            others: `shift`, added to the embedding table, while the scores without it stand still.
        """
        shift = others["shift"]
        adversary: Any = self.regularization.virtual_adversary
        inputs = {name: batch[name] for name in self.inputs}

        def read() -> list:
            with compiled_layers(self.model):
                return tf.nest.flatten(self.scores(inputs, training=True))

        # The same dropout twice: the shift alone is what moves the scores.
        with dropout_masks(self.model, batch, VIRTUAL_PASS):
            here = [tf.stop_gradient(score) for score in read()]
        with tf.GradientTape() as tape, dropout_masks(self.model, batch, VIRTUAL_PASS):
            change = self.distance(here, self.shifted(read, shift), batch)
            loss = tf.reduce_sum(change * batch["loss_weight"])
            loss *= adversary.weight
        return self.model.by_variables(loss, tape), {"change": change}

    def distance(self, one: list, other: list, batch: dict) -> tf.Tensor:
        """Return the divergence of the scores of two passes `[batch]`."""
        triples = zip(self.regularization.scores, one, other, strict=True)
        return tf.add_n(
            [divergence(a, b, scores.kind, used(scores, batch)) for scores, a, b in triples]
        )

    def shifted(self, read: Callable, shift: tf.Tensor | None) -> Any:
        """Return a scope in which the embedding table is shifted; None: unchanged."""
        if shift is None:
            return read()
        table = self.regularization.embeddings
        # No assignment: a single replica can't assign, and undoing it would not be exact.
        with keras.StatelessScope(state_mapping=[(table, table.value + shift)]):
            return read()

    def slope(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the gradient by the embedding table, summed over all replicas."""
        variables = [id(variable) for variable in self.model.trainable_variables]
        slope = gradients[variables.index(id(self.regularization.embeddings))]
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return slope
        return context.all_reduce(tf.distribute.ReduceOp.SUM, slope)


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
