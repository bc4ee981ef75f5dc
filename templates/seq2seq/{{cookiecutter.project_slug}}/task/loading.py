"""Load the encoder of a training with its tokenizer, ready to write."""

from collections.abc import Sequence

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.extras import need
from core.encoders.encoder import (
    BertEncoder,
    load_encoder,
    load_tokenizer,
)
from core.layers.language_model import INITIAL_DEVIATION
from generation.tokenizers import keep_used_tokens, train_text_tokenizer
from task.records import Example, tokenizer_texts
from task.settings import Settings


def load_tokenizer_and_encoder(
    settings: Settings, examples: Sequence[Example]
) -> tuple[Tokenizer, keras.Model]:
    """Return the tokenizer and the encoder; `keep_tokens` reduces both to the tokens in use.

    Args:
        settings: the project's.
        examples: of the training file.
    """
    tokenizer = load_tokenizer(settings, examples, tokenizer_texts, train_text_tokenizer)
    # Files of sentence-transformers pad each text to 128 tokens, an empty one too.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoder = load_backbone(settings, tokenizer)
    if settings.keep_tokens == "used" and settings.encoder != "tiny":
        tokenizer, kept = keep_used_tokens(tokenizer, [*tokenizer_texts(examples)])
        encoder = keep_rows(encoder, kept)
    return tokenizer, encoder


def load_backbone(settings: Settings, tokenizer: Tokenizer) -> keras.Model:
    """Return the encoder; for `unilm` it has positions for the target too.

    Args:
        settings: `encoder`, `model`, `max_length`, `target_length`, `tiny_*`.
        tokenizer: of the encoder.

    Raises:
        InputError: the encoder can't write, or reads too few tokens.
    """
    if settings.model == "pretrained":
        return need("writers", "families").load_writer(settings, tokenizer)
    if settings.model != "unilm":
        encoder = load_encoder(settings, tokenizer)
        if "token_ids" not in {tensor.name for tensor in encoder.inputs}:
            raise InputError(
                f"{settings.encoder} is a {type(encoder).__name__}, which reads targets too and "
                'writes by itself: set model = "pretrained", or choose an encoder.'
            )
        return encoder
    both = settings.max_length + settings.target_length
    if settings.encoder == "tiny":
        encoder = load_encoder(settings.model_copy(update={"max_length": both}), tokenizer)
        begin_with_waves(encoder.position_embedding.position_embeddings)
        return encoder
    encoder = load_encoder(settings, tokenizer)
    if not isinstance(encoder, BertEncoder):
        raise InputError(
            f'model = "unilm" needs a BERT, and {settings.encoder} is a {type(encoder).__name__}: '
            'set model = "encoder_decoder", or choose a BERT.'
        )
    if both > encoder.max_sequence_length:
        raise InputError(
            f"max_length + target_length = {both}, but {settings.encoder} has "
            f"{encoder.max_sequence_length} positions for source and target together: lower one."
        )
    return encoder


def begin_with_waves(positions: keras.Variable) -> None:
    """Initialise the position embedding `[length, width]` of a new encoder as sinusoids.

    Vectors of neighbours are alike then, so "the token after this one", which copying needs, is
    learned for all positions at once. Source: Vaswani et al. 2017, section 3.5.
    """
    length, width = positions.shape
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width]
    positions.assign(INITIAL_DEVIATION * np.sqrt(2) * waves)


def keep_rows(encoder: keras.Model, kept: np.ndarray) -> keras.Model:
    """Return an encoder whose token embedding keeps the rows `kept`."""
    config = {**encoder.get_config(), "vocabulary_size": len(kept)}
    smaller = type(encoder).from_config(config)
    rows = encoder.token_embedding.embeddings.path
    weights = zip(encoder.weights, encoder.get_weights(), strict=True)
    smaller.set_weights([value[kept] if one.path == rows else value for one, value in weights])
    return smaller
