"""GPLinker: an entity pointer, and two link pointers with a head for each predicate.

A pointer gives a score to each pair of tokens (i, j), in one grid for each of its heads: above 0
if the answer is yes, below if it is no. The entity pointer asks: are the tokens from i to j a
subject (head 0) or an object (head 1)? The head pointer asks for each predicate: does an object
that starts at j belong to a subject that starts at i? The tail pointer asks the same of their last
tokens. A triple is predicted where all four scores are high, so triples may nest and overlap.
Source: Su 2022, https://kexue.fm/archives/8888.
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
        predicates: their number.
        settings: `pointer`, `pointer_size`, `entity_heads`.
    """
    entity_heads = entity_head_count(predicates, settings.entity_heads)
    pointer_layer = POINTERS[settings.pointer]  # a class of core/layers/global_pointer.py
    inputs = encoder_inputs(encoder)
    hidden = hidden_states(encoder, inputs, settings)
    mask, size = inputs["padding_mask"], settings.pointer_size
    # Rotary positions let the score of a span depend on its length. Links join tokens at any
    # distance, so the link pointers don't use them.
    pointers = {
        "entity": pointer_layer(entity_heads, size, name="entity_pointer"),
        "head": pointer_layer(predicates, size, rotary=False, name="head_pointer"),
        "tail": pointer_layer(predicates, size, rotary=False, name="tail_pointer"),
    }
    # Parts of the scores: queries and keys `[batch, 1 or heads, length, size]`; with "efficient"
    # also starts and ends `[batch, heads, length]`. The inference model returns these, and
    # `select_triples` scores only likely pairs: all grids of a long text would fill the memory.
    parts = {name: layer(hidden) for name, layer in pointers.items()}
    inference = keras.Model(inputs, {**parts, "mask": mask}, name="inference")

    annotated = keras.Input((predicates,), name="annotated")
    # Weights of heads `[batch, heads]`. Shared heads learn from every record, so None: all 1.
    # Otherwise the weight of a predicate counts for both of its heads, subject and object.
    shared = settings.entity_heads == "shared"
    entity_weight = None if shared else keras.ops.repeat(annotated, 2, axis=1)
    weights = {"entity": entity_weight, "head": annotated, "tail": annotated}
    label_inputs = {"annotated": annotated}
    losses, scores = {}, {}
    for name, layer in pointers.items():
        label = keras.Input((layer.heads, None, 2), dtype="int32", name=f"{name}_labels")
        label_inputs[label.name] = label
        spans = name == "entity"  # else links
        scores[name] = PairScores(spans, name=f"{name}_scores")(parts[name], mask)
        # For 12 heads or more ("efficient") on a CPU, this layer does not read the scores. From
        # `parts` it computes what `SparseMultilabelLoss` would return, in a faster way.
        loss = ManyHeadsLoss(dtype="float32", name=f"{name}_loss")
        losses[loss.name] = loss(
            scores[name], label, weights[name], parts=parts[name], padding_mask=mask, spans=spans
        )
    training = TrainingModel({**inputs, **label_inputs}, losses, name="training")
    compared = tuple(Logits(logits, "sigmoid") for logits in scores.values())  # for R-Drop
    return Models(training, inference, encoder, compared)
