"""Two models of events over the same encoder: GPLinker, and the classic tagger with a CRF.

GPLinker: the span pointer has one head for each role of each event type; a trigger counts as a
role. The link pointers have one head for each type: they relate the first tokens (head) and the
last tokens (tail) of two spans of one event. Spans may nest, overlap and have several roles.
Source: Su 2022, https://kexue.fm/archives/8926. The tagger gives each token one tag.
"""

import keras

from core.encoders.encoder import encoder_inputs, hidden_states
from core.layers.crf import CrfLoss, TagTransitions
from core.layers.global_pointer import POINTERS
from core.layers.many_heads import ManyHeadsLoss
from core.layers.pointers import PairScores
from core.step import Logits, Models, TrainingModel
from task.records import Schema
from task.settings import Settings


def build_models(encoder: keras.Model, schema: Schema, settings: Settings) -> Models:
    """Return the training model (outputs: losses) and the inference model (what is decoded).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        schema: its labels are the heads of spans, its types the heads of links.
        settings: `model`, `pointer`, `pointer_size`, `crf_learning_rate`.
    """
    inputs = encoder_inputs(encoder)
    hidden, mask = hidden_states(encoder, inputs, settings), inputs["padding_mask"]
    tagger = settings.model == "crf"
    add_heads = add_tagger if tagger else add_pointers
    outputs, scores, labels, losses = add_heads(hidden, mask, schema, settings)
    inference = keras.Model(inputs, outputs, name="inference")
    training = TrainingModel({**inputs, **labels}, losses, name="training")
    compared = tuple(Logits(logits, "sigmoid") for logits in scores)
    rates = {"transitions": settings.crf_learning_rate} if tagger else {}
    return Models(training, inference, encoder, compared, rates)


def add_pointers(hidden, mask, schema: Schema, settings: Settings) -> tuple[dict, list, dict, dict]:
    """Return outputs, scores `[batch, heads, length, length]`, labels and losses of GPLinker."""
    pointer = POINTERS[settings.pointer]
    size, types = settings.pointer_size, len(schema.types)
    pointers = {
        # Rotary: scores depend on the distance, the length of a span. Links reach anywhere.
        "span": pointer(len(schema.labels), size, name="span_pointer"),
        "head": pointer(types, size, rotary=False, name="head_pointer"),
        "tail": pointer(types, size, rotary=False, name="tail_pointer"),
    }
    # The inference model returns these parts: all scores of a long text would fill the memory, so
    # `select_spans` computes only those that it needs.
    parts: dict = {name: layer(hidden) for name, layer in pointers.items()}
    scores, labels, losses = [], {}, {}
    for name, layer in pointers.items():
        # The first tokens of a link are in order, as in a span: see `link_cells`.
        spans = name != "tail"
        scores.append(PairScores(spans, name=f"{name}_scores")(parts[name], mask))
        label = keras.Input((layer.heads, None, 2), dtype="int32", name=f"{name}_labels")
        labels[label.name] = label
        # The value of `SparseMultilabelLoss`. With 12 heads or more a CPU computes it from `parts`
        # instead of `scores`, which is faster.
        loss = ManyHeadsLoss(dtype="float32", name=f"{name}_loss")
        losses[loss.name] = loss(
            scores[-1], label, parts=parts[name], padding_mask=mask, spans=spans
        )
    return {**parts, "mask": mask}, scores, labels, losses


def add_tagger(hidden, mask, schema: Schema, settings: Settings) -> tuple[dict, list, dict, dict]:
    """Return outputs, no scores, labels and losses of the tagger.

    Without scores, because a tag depends on the tags before it: two passes can't be compared token
    by token.
    """
    count = len(schema.labels)
    emissions = keras.layers.Dense(1 + 2 * count, dtype="float32", name="emissions")(hidden)
    transitions = TagTransitions(count, dtype="float32", name="transitions")(emissions)
    tags = keras.Input((None,), dtype="int32", name="tags")
    loss = CrfLoss(dtype="float32", name="crf_loss")(emissions, transitions, tags, mask)
    outputs = {"emissions": emissions, "transitions": transitions}
    return outputs, [], {"tags": tags}, {"crf_loss": loss}
