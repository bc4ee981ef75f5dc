"""The generator of replaced tokens: a small masked language model that fills hidden places.

It is read from its own folder and does not learn. Tokens are drawn while batches are made, from the
random numbers of the batch, so the replaced tokens don't depend on the number of replicas.
"""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from core.base.errors import InputError
from core.base.settings import CoreSettings
from core.encoders.encoder import load_tokenizer, local_folder
from extras.encoders import language_model
from extras.encoders.loading import load_backbone
from extras.encoders.modernbert import ModernBert
from extras.encoders.postnorm import PostNormEncoder

ROWS = 32  # texts that are filled at once: each hidden token has a number for each token


def draw_tokens(
    padded: Any, hidden: np.ndarray, settings: Any, special: Any, random: np.random.Generator
) -> np.ndarray:
    """Return tokens `[texts, length]`: where they are hidden, drawn by the generator.

    Args:
        padded: token ids and padding mask of texts `[texts, length]`.
        hidden: bool `[texts, length]`.
        settings: `encoders.generator`, `encoder`, `max_length`.
        special: tokens that are not text, which are never drawn.
        random: draws one number for each hidden token.
    """
    named = settings.encoders.generator
    fill = load_generator(named, settings.encoder, settings.max_length)
    tokens, masked = padded.token_ids.copy(), np.where(hidden, special.mask, padded.token_ids)
    for first in range(0, len(tokens), ROWS):
        rows = slice(first, first + ROWS)
        slots = max(1, int(hidden[rows].sum(axis=1).max()))
        # The hidden places of each text come first.
        places = np.argsort(~hidden[rows], axis=1, kind="stable")[:, :slots]
        arrays = (masked[rows], np.zeros_like(masked[rows]), padded.padding_mask[rows], places)
        logits = fill(*(tf.constant(array, tf.int32) for array in arrays)).numpy()
        drawn = draw(logits[..., : len(special.is_special)], special.is_special, random)
        used = np.take_along_axis(hidden[rows], places, axis=1)
        kept = np.take_along_axis(tokens[rows], places, axis=1)
        np.put_along_axis(tokens[rows], places, np.where(used, drawn, kept), axis=1)
    return tokens


def draw(logits: np.ndarray, left_out: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return tokens `[...]` drawn from the softmax of logits `[..., vocabulary]`.

    Args:
        logits: of all tokens.
        left_out: tokens that are never drawn, bool `[vocabulary]`.
        random: draws one number for each place.
    """
    logits = np.where(left_out, -np.inf, logits.astype(np.float64))
    sums = np.cumsum(np.exp(logits - logits.max(axis=-1, keepdims=True)), axis=-1)
    chosen = random.random((*logits.shape[:-1], 1)) * sums[..., -1:]
    return (sums <= chosen).sum(axis=-1)


@functools.lru_cache(maxsize=1)
def load_generator(name: str, encoder: str, max_length: int) -> Any:
    """Return a function from masked texts and hidden places to the logits of their tokens.

    Args:
        name: of the generator, like an encoder in the settings.
        encoder: that learns; both have the same tokens.
        max_length: of texts.

    Raises:
        InputError: it can't be read, has no head, or does not fit the encoder.
    """
    settings: Any = CoreSettings.model_construct(
        encoder=name, dropout=0.0, attention_dropout=0.0, max_length=max_length
    )
    folder = local_folder(name)
    read = load_backbone(settings, folder) if folder else None
    if folder is None or not isinstance(read, PostNormEncoder | ModernBert):
        raise InputError(
            f"encoders.generator = {name!r} is not a generator: name the folder of an ELECTRA "
            "generator, or of another masked language model that is no BERT."
        )
    longest = getattr(read, "max_sequence_length", None)
    if longest and longest < max_length:
        raise InputError(
            f"max_length = {max_length}, but encoders.generator reads {longest} tokens at most: "
            f"set max_length = {longest}."
        )
    other: Any = CoreSettings.model_construct(encoder=encoder, max_length=max_length)
    tokenizers = (load_tokenizer(one, []) for one in (settings, other))
    vocabularies = [tokenizer.get_vocab() for tokenizer in tokenizers]
    if vocabularies[0] != vocabularies[1]:
        raise InputError(
            f"encoders.generator = {name!r} has other tokens than {encoder}: name the generator "
            "that belongs to it."
        )
    model: Any = language_model.MaskedLanguageModel(read, dtype="float32")
    if reason := language_model.find_head(model, folder):
        raise InputError(
            f"encoders.generator = {name!r} {reason}: name the folder of a generator, with its "
            "head."
        )
    return tf.function(functools.partial(model, training=False), reduce_retracing=True)
