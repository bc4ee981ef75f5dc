"""GPLinker: an entity pointer, and two link pointers with a head for each predicate.

A triple (subject, predicate, object) holds where the entity pointer accepts both spans and the
link pointers relate their first tokens (head) and their last tokens (tail). Nested, overlapping
and many-valued triples are all different cells of these grids. Source: Su 2022,
https://kexue.fm/archives/8888.
"""

import keras

from core.encoders.encoder import encoder_inputs, hidden_states
from core.layers.global_pointer import POINTERS
from core.layers.many_heads import ManyHeadsLoss
from core.layers.pointers import PairScores
from core.step import Logits, Models, TrainingModel
from task.data import entity_head_count
from task.settings import Settings


def build_models(encoder: keras.Model, predicates: int, settings: Settings) -> Models:
    """Return the training model (outputs: losses) and the inference model (parts of the scores).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        predicates: how many.
        settings: `pointer`, `pointer_size`, `entity_heads`.
    """
    entities = entity_head_count(predicates, settings.entity_heads)
    pointer = POINTERS[settings.pointer]
    inputs = encoder_inputs(encoder)
    hidden, mask = hidden_states(encoder, inputs, settings), inputs["padding_mask"]
    size = settings.pointer_size
    # Rotary positions let the score of a span depend on its length. Links join tokens at any
    # distance, so the link pointers don't use them. "head" links first tokens, "tail" last ones.
    pointers = {
        "entity": pointer(entities, size, name="entity_pointer"),
        "head": pointer(predicates, size, rotary=False, name="head_pointer"),
        "tail": pointer(predicates, size, rotary=False, name="tail_pointer"),
    }
    # Parts of the scores: queries and keys `[batch, 1 or heads, length, size]`; with "efficient"
    # also starts and ends `[batch, heads, length]`. Prediction ends here: whole grids fill memory.
    parts = {name: layer(hidden) for name, layer in pointers.items()}
    inference = keras.Model(inputs, {**parts, "mask": mask}, name="inference")

    annotated = keras.Input((predicates,), name="annotated")
    # Weights of the heads `[batch, heads]`. Shared entity heads learn from all records. Otherwise
    # each predicate has two, subject and object: its weight is repeated.
    shared = settings.entity_heads == "shared"
    entity_weight = None if shared else keras.ops.repeat(annotated, 2, axis=1)
    weights = {"entity": entity_weight, "head": annotated, "tail": annotated}
    label_inputs = {"annotated": annotated}
    losses, scores = {}, {}
    for name, layer in pointers.items():
        label = keras.Input((layer.heads, None, 2), dtype="int32", name=f"{name}_labels")
        label_inputs[label.name] = label
        spans = name == "entity"
        scores[name] = PairScores(spans, name=f"{name}_scores")(parts[name], mask)
        # `SparseMultilabelLoss`; from 12 heads on, a CPU computes it faster, from these parts.
        loss_layer = ManyHeadsLoss(dtype="float32", name=f"{name}_loss")
        made_of = {"parts": parts[name], "padding_mask": mask, "spans": spans}
        losses[loss_layer.name] = loss_layer(scores[name], label, weights[name], **made_of)
    training = TrainingModel({**inputs, **label_inputs}, losses, name="training")
    compared = tuple(Logits(logits, "sigmoid") for logits in scores.values())
    return Models(training, inference, encoder, compared)
