"""A decoder that classifies by its next token: each label is a word that it may write.

The logits of the words at the last token are those of the labels, so the model answers before it is
trained, and no layer begins from nothing. Source: Schick and Schütze 2021,
https://arxiv.org/abs/2001.07676.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from core.base.errors import InputError


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


def check_answers(encoder: Any, labels: Any, settings: Any) -> None:
    """Refuse words that don't fit the labels.

    Args:
        encoder: a `Decoder` with `answers`.
        labels: of the training file.
        settings: `pooling`.

    Raises:
        InputError: the records need another output, or other words.
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
    table = getattr(settings, "encoders", None)
    if table and table.last_layers > 1:
        raise InputError(
            f"writers.answers reads the last layer, and encoders.last_layers = {table.last_layers} "
            "joins several: set it to 0."
        )
    if settings.pooling not in ("auto", "last"):
        raise InputError(
            f'writers.answers reads the last token, not pooling = {settings.pooling}: set "auto".'
        )


def answer_layer(encoder: Any, labels: Any) -> Callable[[Any], keras.KerasTensor]:
    """Return what computes the logits of labels from the hidden states of the last tokens.

    Args:
        encoder: a `Decoder` with `answers`.
        labels: their `names` are in the order of the logits.
    """
    tokens = [encoder.answers[name] for name in labels.names]
    choose = AnswerLogits(tokens, dtype="float32", name="logits")
    # bfloat16 loses small differences of large logits.
    encoder.token_embedding.reverse_dtype = "float32"
    return lambda last: choose(encoder.score(last))
