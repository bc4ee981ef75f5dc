"""The gradient of a loss that compares all pairs of a batch: exact on any number of replicas.

A loss layer sees only the pairs of its replica, or of its micro-batch. So the vectors of all pairs
are gathered outside of the model, where every replica computes the gradient of the loss with
respect to them. Each replica, and each micro-batch, then backpropagates its own rows. With
micro-batches the vectors are computed twice, with the same dropout, and the memory is that of one.
Source: Gao et al. 2021, https://arxiv.org/abs/2101.06983.
"""

import keras
import numpy as np
import tensorflow as tf

from core.exact.dropout import dropout_masks
from core.exact.micro_batches import Gradients, graph_of
from core.fast.layer_programs import compiled_layers
from core.step import TrainingModel
from extras.retrieval.pair_losses import PairBatch, cosent_loss, negatives_losses
from extras.retrieval.settings import Table
from extras.retrieval.text_inputs import SIDES

SLOPES = "slopes"  # the gradient by the vectors, an additional input of a micro-batch
# Texts are compared by sums of their tokens, weighted at random, modulo a prime. Two texts have the
# same three numbers with probability 2**-71; float32 holds each of them exactly.
PRIME, NUMBERS = 16_777_213, 3


class PairGradients:
    """Replaces the plain gradient of a training step; called in each replica.

    Args:
        model: its examples are pairs.
        pairs: a tensor of the model `[batch, 2 * dimension + 1]`: both vectors, and the grade.
        table: `loss`, `scale` and `symmetric`.
        max_length: tokens of the longest text.
    """

    def __init__(
        self, model: TrainingModel, pairs: keras.KerasTensor, table: Table, max_length: int
    ) -> None:
        self.model, self.table = model, table
        self.inputs = {tensor.name: tensor for tensor in keras.utils.get_source_inputs(pairs)}
        self.width = pairs.shape[-1]
        self.pairs = keras.Model(self.inputs, pairs)
        weights = np.random.default_rng(0).integers(1, PRIME, (max_length, NUMBERS))
        self.weights = tf.constant(weights, tf.int64)
        self.slopes_to_gradients = graph_of(model, self.pull_back, [])
        self.first_pass = tf.function(
            self.read_micro_batches, reduce_retracing=True, autograph=False
        )

    def __call__(self, batch: dict) -> Gradients:
        """Return the gradient by each variable, and the loss `[batch]`, the same in each row."""
        if self.model.accumulation > 1:
            slopes, losses = self.slopes(self.first_pass(batch), batch)
            gradients, _ = self.slopes_to_gradients({**batch, SLOPES: slopes})
            return gradients, losses
        with tf.GradientTape() as tape, dropout_masks(self.model, batch):
            pairs = self.read(batch)
        slopes, losses = self.slopes(pairs, batch)
        with tape:
            moved = tf.reduce_sum(pairs * slopes)
        return self.model.gradient_of(moved, tape), losses

    def read(self, batch: dict) -> tf.Tensor:
        """Return vectors and grades of pairs, in the format of `pairs`."""
        with compiled_layers(self.model):
            return self.pairs({name: batch[name] for name in self.inputs}, training=True)

    def read_micro_batches(self, batch: dict) -> tf.Tensor:
        """Return vectors and grades of pairs, one micro-batch at a time."""
        parts = self.model.accumulation
        micro_batches = {
            name: tf.reshape(array, [parts, -1, *tf.unstack(tf.shape(array))[1:]])
            for name, array in batch.items()
        }

        def read(micro_batch: dict) -> tf.Tensor:
            for name, array in batch.items():
                micro_batch[name] = tf.ensure_shape(micro_batch[name], [None, *array.shape[1:]])
            with dropout_masks(self.model, micro_batch):
                return self.read(micro_batch)

        found = tf.map_fn(
            read, micro_batches, fn_output_signature=tf.float32, parallel_iterations=1
        )
        return tf.reshape(found, [-1, self.width])

    def pull_back(self, batch: dict) -> Gradients:
        """Return the gradient by each variable of the vectors, weighted by their slopes."""
        with tf.GradientTape() as tape, dropout_masks(self.model, batch):
            moved = tf.reduce_sum(self.read(batch) * batch[SLOPES])
        return self.model.gradient_of(moved, tape), {}

    def slopes(self, pairs: tf.Tensor, batch: dict) -> tuple[tf.Tensor, dict]:
        """Return the gradient of the batch's loss by own rows, and the loss `[batch]`.

        Args:
            pairs: vectors and grades of this replica.
            batch: of this replica.
        """
        numbers = [self.text_numbers(batch, side) for side in SIDES]
        weight = batch["loss_weight"]
        whole = gather(tf.concat([pairs, weight[:, None], *numbers], axis=-1))
        with tf.GradientTape() as tape:
            tape.watch(whole)
            loss = self.loss(self.open_rows(whole))
        slopes = tape.gradient(loss, whole, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        rows = tf.shape(pairs)[0]
        own = slopes[replica() * rows :][:rows, : self.width]
        losses = tf.fill([rows], loss)
        return own, {"loss": losses, **dict.fromkeys(self.model.loss_names, losses)}

    def open_rows(self, rows: tf.Tensor) -> PairBatch:
        """Return the pairs that are written as rows of numbers."""
        dimension = (self.width - 1) // 2
        sizes = [dimension, dimension, 1, 1, NUMBERS, NUMBERS]
        first, second, grades, weight, *numbers = tf.split(rows, sizes, axis=-1)
        same = [tf.reduce_all(one[:, None] == one[None, :], axis=-1) for one in numbers]
        return PairBatch(first, second, grades[:, 0], weight[:, 0] > 0, *same)

    def loss(self, batch: PairBatch) -> tf.Tensor:
        """Return the loss of a whole batch; 0 if it has nothing to compare."""
        if self.table.loss == "cosent":
            return cosent_loss(batch, self.table.scale)
        losses = negatives_losses(batch, self.table.scale, self.table.symmetric)
        counted = tf.cast(batch.real & (batch.grades >= 1), tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(counted))

    def text_numbers(self, batch: dict, side: str) -> tf.Tensor:
        """Return the numbers `[batch, NUMBERS]` by which texts are compared."""
        mask = tf.cast(batch[f"{side}padding_mask"], tf.int64)
        tokens = (tf.cast(batch[f"{side}token_ids"], tf.int64) + 1) * mask
        weighted = tokens[:, :, None] * self.weights[: tf.shape(tokens)[1]]
        return tf.cast(tf.reduce_sum(weighted, axis=1) % PRIME, tf.float32)


def replica() -> tf.Tensor | int:
    """Return the number of this replica, from 0."""
    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def gather(rows: tf.Tensor) -> tf.Tensor:
    """Return the concatenated rows of all replicas."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return rows
    # A sum with zeros, exact to the last bit: all kinds of replicas can sum.
    place = tf.one_hot(replica(), context.num_replicas_in_sync, dtype=rows.dtype)
    spread = tf.reshape(place[:, None, None] * rows[None], [-1, rows.shape[-1]])
    return context.all_reduce(tf.distribute.ReduceOp.SUM, spread)
