"""Two models for entities, of which `tagger` chooses one: a pointer, or BIO tags with a CRF.

The pointer scores every span for each type, so entities may nest, overlap and have several types.
Source: Su 2022, https://kexue.fm/archives/8877. The CRF gives each token one tag, so its
entities are flat. Neither finds an entity of several pieces.
"""

import keras

from core.encoders.encoder import encoder_inputs, hidden_states
from core.layers.crf import CrfLoss, TagTransitions
from core.layers.global_pointer import POINTERS
from core.layers.many_heads import ManyHeadsLoss
from core.layers.pointers import PairScores
from core.step import Logits, Models, TrainingModel
from task.settings import Settings


def build_models(encoder: keras.Model, types: int, settings: Settings) -> Models:
    """Return the training model (outputs: losses) and the inference model (what is decoded).

    Args:
        encoder: token ids -> hidden states `[batch, length, width]`.
        types: how many types of entities; each is a head of the pointer, or a pair of tags.
        settings: `tagger`, `pointer`, `pointer_size`, `crf_learning_rate`.
    """
    inputs = encoder_inputs(encoder)
    hidden, mask = hidden_states(encoder, inputs, settings), inputs["padding_mask"]
    compared: tuple[Logits, ...] = ()
    rates = {}
    if settings.tagger == "crf":
        outputs, labels, loss = add_tagger(hidden, mask, types)
        rates = {"transitions": settings.crf_learning_rate}
    else:
        outputs, scores, labels, loss = add_pointer(hidden, mask, types, settings)
        compared = (Logits(scores, "sigmoid"),)
    inference = keras.Model(inputs, outputs, name="inference")
    training = TrainingModel({**inputs, labels.name: labels}, loss, name="training")
    return Models(training, inference, encoder, compared, rates)


def add_pointer(hidden, mask, types: int, settings: Settings) -> tuple:
    """Return outputs, scores `[batch, types, length, length]`, labels and the loss of a pointer."""
    pointer = POINTERS[settings.pointer](types, settings.pointer_size, name="span_pointer")
    # `scores` is for the loss. All scores of long texts are large, so the inference model returns
    # their parts, and `best_spans` computes the scores of one head after the other from these.
    # Change the scores in the pointer or in `pair_scores`, which both use.
    parts = pointer(hidden)
    scores = PairScores(name="span_scores")(parts, mask)
    labels = keras.Input((types, None, 2), dtype="int32", name="span_labels")
    # The value of `SparseMultilabelLoss`. With 12 types or more a CPU computes it from `parts`
    # instead of `scores`, which is faster.
    loss = ManyHeadsLoss(dtype="float32", name="span_loss")
    losses = {loss.name: loss(scores, labels, parts=parts, padding_mask=mask)}
    return {"span": parts, "mask": mask}, scores, labels, losses


def add_tagger(hidden, mask, types: int) -> tuple:
    """Return outputs, labels and the loss of the tagger.

    R-Drop can't compare two passes token by token, because a tag depends on the tags before it.
    """
    emissions = keras.layers.Dense(1 + 2 * types, dtype="float32", name="emissions")(hidden)
    transitions = TagTransitions(types, dtype="float32", name="transitions")(emissions)
    tags = keras.Input((None,), dtype="int32", name="tags")
    loss = CrfLoss(dtype="float32", name="crf_loss")(emissions, transitions, tags, mask)
    return {"emissions": emissions, "transitions": transitions}, tags, {"crf_loss": loss}
