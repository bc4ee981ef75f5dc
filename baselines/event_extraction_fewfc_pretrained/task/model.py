"""Two models of events over the same encoder: GPLinker, and the classic tagger with a CRF.

GPLinker: the span pointer has a head for each role of each event type, the trigger being a role
too; the link pointers relate the first tokens (head) and the last tokens (tail) of two spans of
one event, with a head for each type. Spans may nest, overlap and have several roles. Source: Su
2022, https://kexue.fm/archives/8926. The tagger gives each token one tag.
"""

import keras

from common.layers import EfficientGlobalPointer, GlobalPointer, SparseMultilabelLoss
from common.regularization import Scores
from common.training import TrainingModel
from task.crf import CrfLoss, TagTransitions
from task.data import Schema
from task.settings import Settings


def build_models(
    encoder: keras.Model, schema: Schema, settings: Settings
) -> tuple[TrainingModel, keras.Model]:
    """Return the training model (outputs: losses) and the inference model (outputs: scores).

    Both share every layer: training the first trains the second.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        schema: its labels and types are the heads.
        settings: `model`, `pointer`, `pointer_size`.
    """
    inputs = {
        tensor.name: keras.Input((None,), dtype="int32", name=tensor.name)
        for tensor in encoder.inputs
    }
    hidden = encoder(inputs)
    hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden
    mask = inputs["padding_mask"]
    add_heads = {"gplinker": add_pointers, "crf": add_tagger}[settings.model]
    scores, labels, losses = add_heads(hidden, mask, schema, settings)
    inference = keras.Model(inputs, scores, name="inference")
    training = TrainingModel({**inputs, **labels}, losses, name="training")
    return training, inference


def add_pointers(hidden, mask, schema: Schema, settings: Settings) -> tuple[dict, dict, dict]:
    """Return scores, labels and losses of GPLinker, each by name.

    The scores are `span`, `head` and `tail` `[batch, heads, length, length]`.
    """
    pointer = {"efficient": EfficientGlobalPointer, "plain": GlobalPointer}[settings.pointer]
    size, types = settings.pointer_size, len(schema.types)
    pointers = {
        # Only spans need to know their length; links may reach anywhere.
        "span": pointer(len(schema.labels), size, name="span_pointer"),
        # Both first tokens are in order, as in a span: see `link_cells`.
        "head": pointer(types, size, rotary=False, name="head_pointer"),
        "tail": pointer(types, size, rotary=False, spans=False, name="tail_pointer"),
    }
    scores, labels, losses = {}, {}, {}
    for name, layer in pointers.items():
        scores[name] = layer(hidden, mask)
        label = keras.Input((layer.heads, None, 2), dtype="int32", name=f"{name}_labels")
        labels[label.name] = label
        losses[f"{name}_loss"] = SparseMultilabelLoss(name=f"{name}_loss")(scores[name], label)
    return scores, labels, losses


def add_tagger(hidden, mask, schema: Schema, settings: Settings) -> tuple[dict, dict, dict]:
    """Return scores, labels and losses of the tagger, each by name.

    The scores are `emissions` `[batch, length, tags]` and `transitions` `[batch, tags + 1, tags]`.
    """
    labels = len(schema.labels)
    emissions = keras.layers.Dense(1 + 2 * labels, dtype="float32", name="emissions")(hidden)
    transitions = TagTransitions(labels, dtype="float32", name="transitions")(emissions)
    tags = keras.Input((None,), dtype="int32", name="tags")
    loss = CrfLoss(dtype="float32", name="crf_loss")(emissions, transitions, tags, mask)
    return (
        {"emissions": emissions, "transitions": transitions},
        {"tags": tags},
        {"crf_loss": loss},
    )


def compared_scores(inference: keras.Model) -> list[Scores]:
    """Return what two passes with other dropout are compared by."""
    return [Scores(logits, "sigmoid") for logits in inference.output.values()]
