"""Several dropout masks of the hidden states in one step (multi-sample dropout).

The head is computed for each mask, and the model learns from the mean of the losses. The encoder,
which takes nearly all of the time, runs only once. Source: Inoue 2019,
https://arxiv.org/abs/1905.09788.
"""

from typing import Any

import keras
import tensorflow as tf

from core.base.errors import InputError
from core.base.replace_class import replace_class
from core.exact.dropout import Dropout
from core.fast.layer_programs import CURRENT, call_head
from core.step import Models, TrainingModel


class HeadSamples:
    """A training model in two parts, with dropout between encoder and head.

    Args:
        models: of the task.
        count: masks in a step.
        rate: of the dropout.
        seed: of the masks.

    Raises:
        InputError: the head reads something else than the hidden states of one pass.
    """

    def __init__(self, models: Models, count: int, rate: float, seed: int) -> None:
        model, hidden = models.training, find_hidden(models)
        self.count = count
        self.dropout = Dropout(rate, name="head_dropout")
        self.dropout.stream = f"{seed}/head"
        self.body = keras.Model(model.input, hidden, name="body")
        # As the programs of core do: only what the head reads.
        read = {id(t) for node in nodes_of(model, self.body) for t in node.input_tensors}
        others = [tensor for tensor in model.inputs if id(tensor) in read]
        self.names = [tensor.name for tensor in others]
        inputs = [hidden, *others]
        scores = [compared.logits for compared in models.compared]
        self.head = keras.Model(inputs, {"losses": model.output, "scores": scores}, name="head")

    def __call__(self, inputs: dict, training: bool = True) -> dict[str, Any]:
        """Return the mean of the `losses` `[batch]` under all masks, by name.

        The `scores`, by which two passes are compared, are those under the first mask.
        """
        hidden, others = self.body(inputs, training=True), [inputs[name] for name in self.names]
        found = [
            call_part(self.head, [self.dropout(hidden, training=True), *others])
            for _ in range(self.count)
        ]
        losses = {
            name: tf.add_n([one["losses"][name] for one in found]) / self.count
            for name in found[0]["losses"]
        }
        return {**found[0], "losses": losses}


def call_part(head: keras.Model, tensors: list) -> dict[str, Any]:
    """Return the outputs of a part of a model; with XLA it is one program."""
    programs = CURRENT.get()
    if programs is None:
        return head(tensors, training=True)
    return programs.call(head, call_head, ((tensors,), {"training": True}))


def nodes_of(model: keras.Model, part: keras.Model | None = None) -> list:
    """Return the nodes of a functional model that are not in a part of it."""
    known = nodes_of(part) if part else []
    own = [node for nodes in model._nodes_by_depth.values() for node in nodes]
    return [node for node in own if node not in known]


def find_hidden(models: Models) -> keras.KerasTensor:
    """Return the hidden states that the head of a training model reads.

    Raises:
        InputError: there are none, or those of several passes.
    """
    nodes = nodes_of(models.training)
    read = {id(tensor) for node in nodes for tensor in node.input_tensors}
    made = [t for node in nodes if node.operation is models.encoder for t in node.output_tensors]
    hidden = [tensor for tensor in made if id(tensor) in read]
    if len(hidden) != 1 or len(hidden[0].shape) != 3:
        raise InputError(
            "regularization.dropout_samples needs a model whose head reads the hidden states of "
            "one pass through the encoder: set dropout_samples = 0."
        )
    return hidden[0]


class SampledModel(TrainingModel):
    """A training model whose losses are means over several dropout masks of the hidden states."""

    samples: HeadSamples

    def call(self, inputs: dict, training: Any = None, mask: Any = None) -> dict:
        """Return the losses; those of one head without dropout unless it is training."""
        return self.samples(inputs)["losses"] if training else super().call(inputs, training, mask)


def sample_head(models: Models, count: int, rate: float, seed: int) -> None:
    """Let the training model learn from several dropout masks of the hidden states.

    Raises:
        InputError: its head does not read the hidden states of one pass.
    """
    samples = HeadSamples(models, count, rate, seed)
    replace_class(models.training, SampledModel)
    models.training.samples = samples
