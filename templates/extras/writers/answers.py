"""A decoder that classifies by its next token: each label is a word that it may write.

The logits of the words at the last token are those of the labels, so the model answers before it is
trained, and no layer begins from nothing. Source: Schick and Schütze 2021,
https://arxiv.org/abs/2001.07676.
"""

from typing import Any

import keras
from keras import ops

from core.base.errors import InputError
from core.step import Logits, Models, TrainingModel
from task.model import output_layers, read_texts


@keras.saving.register_keras_serializable("writers")
class AnswerLogits(keras.layers.Layer):
    """The logits of some tokens out of those of the whole vocabulary, in float32.

    Args:
        tokens: one for each label.
    """

    def __init__(self, tokens: list[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = tokens

    def call(self, logits: Any) -> Any:
        """Choose from logits `[batch, vocabulary]`."""
        return ops.take(ops.cast(logits, "float32"), ops.convert_to_tensor(self.tokens), axis=-1)

    def compute_output_spec(self, logits: Any) -> keras.KerasTensor:
        return keras.KerasTensor((logits.shape[0], len(self.tokens)), dtype="float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "tokens": self.tokens}


def build_answer_models(encoder: Any, labels: Any, settings: Any) -> Models:
    """Return the training model and the inference model, whose softmax is over the words.

    Args:
        encoder: a `Decoder` with `answers`.
        labels: of the training file.
        settings: as for other classifiers; `pooling` and `dropout_samples` are of their head.

    Raises:
        InputError: the records or the settings need a head.
    """
    if labels.several or labels.are_numbers or getattr(labels, "are_lists", False):
        raise InputError(
            "writers.answers gives each record one label by a softmax over the words, and these "
            'records have several labels, numbers or groups: set writers.answers = "".'
        )
    if {*encoder.answers} != {*labels.names}:
        raise InputError(
            f"writers.answers has words for {', '.join(encoder.answers)}, and the labels of "
            f"train_file are {', '.join(labels.names)}: give each label a word."
        )
    if settings.pooling not in ("auto", "last") or settings.dropout_samples > 1:
        raise InputError(
            "writers.answers reads the last token and has no head: set pooling = auto and "
            "dropout_samples = 1."
        )
    inputs, last = read_texts(encoder, labels, settings)
    _, answer, loss, kind = output_layers(labels, settings, "label_loss")
    tokens = [encoder.answers[name] for name in labels.names]
    # bfloat16 loses small differences of large logits.
    encoder.token_embedding.reverse_dtype = "float32"
    logits = AnswerLogits(tokens, dtype="float32", name="logits")(encoder.score(last))
    inference = keras.Model(inputs, {answer.name: answer(logits)}, name="inference")
    targets = keras.Input((len(tokens),), name="targets")
    outputs = {"label_loss": loss(logits, targets)}
    training = TrainingModel({**inputs, "targets": targets}, outputs, name="training")
    return Models(training, inference, encoder, (Logits(logits, kind),))
