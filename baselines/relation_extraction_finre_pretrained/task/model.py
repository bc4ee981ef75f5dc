"""GPLinker: an entity pointer, and two link pointers for each predicate.

A triple (subject, predicate, object) holds where the entity pointer accepts both spans and the
link pointers relate their first tokens (head) and their last tokens (tail). Nested, overlapping
and many-valued triples are all different cells of these grids. Source: Su 2022,
https://kexue.fm/archives/8888.
"""

import keras

from common.layers import EfficientGlobalPointer, GlobalPointer, SparseMultilabelLoss
from common.regularization import Scores
from common.training import TrainingModel
from task.data import entity_head_count
from task.settings import Settings

POINTERS = ("entity", "head", "tail")


def build_models(
    encoder: keras.Model, predicates: int, settings: Settings
) -> tuple[TrainingModel, keras.Model]:
    """Return the training model (outputs: losses) and the inference model (outputs: scores).

    Both share every layer: training the first trains the second.

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        predicates: number of predicates.
        settings: `pointer`, `pointer_size`, `entity_heads`.
    """
    entities = entity_head_count(predicates, settings.entity_heads)
    pointer = {"efficient": EfficientGlobalPointer, "plain": GlobalPointer}[settings.pointer]
    inputs = {
        tensor.name: keras.Input((None,), dtype="int32", name=tensor.name)
        for tensor in encoder.inputs
    }
    hidden = encoder(inputs)
    hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden
    mask = inputs["padding_mask"]
    size = settings.pointer_size
    scores = {
        # Only spans need to know their length; links may reach anywhere.
        "entity": pointer(entities, size, name="entity_pointer")(hidden, mask),
        "head": pointer(predicates, size, rotary=False, spans=False, name="head_pointer")(
            hidden, mask
        ),
        "tail": pointer(predicates, size, rotary=False, spans=False, name="tail_pointer")(
            hidden, mask
        ),
    }
    inference = keras.Model(inputs, scores, name="inference")

    annotated = keras.Input((predicates,), name="annotated")
    # Shared entity heads learn from every record, those of one predicate from its records alone.
    entity_weight = (
        None if settings.entity_heads == "shared" else keras.ops.repeat(annotated, 2, axis=1)
    )
    losses, labels = {}, {}
    for name, heads in zip(POINTERS, (entities, predicates, predicates), strict=True):
        labels[name] = keras.Input((heads, None, 2), dtype="int32", name=f"{name}_labels")
        losses[f"{name}_loss"] = SparseMultilabelLoss(name=f"{name}_loss")(
            scores[name], labels[name], entity_weight if name == "entity" else annotated
        )
    training = TrainingModel(
        {**inputs, **{tensor.name: tensor for tensor in labels.values()}, "annotated": annotated},
        losses,
        name="training",
    )
    return training, inference


def compared_scores(inference: keras.Model) -> list[Scores]:
    """Return what two passes with other dropout are compared by."""
    return [Scores(logits, "sigmoid") for logits in inference.output.values()]
