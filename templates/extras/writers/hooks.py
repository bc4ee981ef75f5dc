"""Pretrained writers in the place of the models of text generation, where `model` asks for one.

Decoder-only ones are encoders of text classification, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.settings import CoreSettings
from extras.writers.settings import Settings, classifies, packs, writes

if TYPE_CHECKING:  # processes of extras/cache, which need no TensorFlow, ask for prompts
    import keras

    from extras.writers.packing import PackedGenerator


def load_backbone(settings: CoreSettings, folder: Path) -> "keras.Model | None":
    """Return the writer of a folder; None: an encoder is asked for."""
    from extras.writers import families

    return families.make_writer(settings, folder)


def load_tokenizer(
    name: str, folder: Path | None, settings: CoreSettings | None = None
) -> Tokenizer | None:
    """Return the tokenizer of a writer's folder; None: it is not one, or core reads it."""
    from extras.writers import families, files, frames

    family = families.FAMILIES.get(files.read_family(folder)) if folder else None
    if folder is None or family is None:
        return None
    if family.is_decoder and classifies(settings):
        return frames.load_framed(folder, settings)
    return files.load_tokenizer(folder, family.is_decoder)


def encode_prompts(
    tokenizer: Tokenizer, sources: Sequence[str], settings: Settings
) -> list[np.ndarray] | None:
    """Return the tokens of each prompt with its source; None: another model reads sources alone."""
    if not writes(settings):
        return None
    from extras.writers import files

    return files.encode_prompts(tokenizer, sources, settings.writers.prompt, settings.max_length)


def pack_pairs(settings: Settings, pairs: Any) -> "PackedGenerator | None":
    """Return training batches with several examples in a row, where the table asks for them.

    Args:
        settings: `max_length`, `target_length`, and the table `writers`.
        pairs: batches with one example in a row.
    """
    if not packs(settings):
        return None
    from extras.writers import packing

    known: Any = settings
    return packing.pack(pairs, known.max_length + known.target_length)


def write_rows(
    settings: Settings, encoder: Any, inputs: dict
) -> "tuple[dict, keras.KerasTensor] | None":
    """Return inputs and logits of a model of such rows; None: it reads one example in each.

    Args:
        settings: the table `writers`.
        encoder: the writer.
        inputs: of the model that reads one example in a row, by name.
    """
    if not packs(settings):
        return None
    from extras.writers import packing

    return packing.write_rows(encoder, inputs)


def build_models(encoder: "keras.Model", labels: Any, settings: Any) -> None:
    """Build nothing: refuse what does not fit a decoder that reads texts, or its records.

    Raises:
        InputError: a pooling that no decoder has, or a prompt for other records.
    """
    from extras.writers.decoder import Decoder

    table: Any = getattr(settings, "writers", None)  # None: whoever builds has no use for extras
    prompt, second = (table.prompt if table else ""), "{text_b}"
    if not isinstance(encoder, Decoder):
        if prompt or (table and table.weights != "pretrained"):
            raise InputError(
                f"[writers] is for decoder-only models, and {settings.encoder} is a "
                f"{type(encoder).__name__}: leave the table as it came, or choose a decoder."
            )
        return
    if settings.pooling == "cls":
        raise InputError(
            f"pooling = cls takes the first token, which in a decoder as {settings.encoder} has "
            'read nothing else: set pooling = "last", or "mean".'
        )
    if prompt and labels.pairs and second not in prompt:
        raise InputError(
            f"the records are pairs, and writers.prompt has no {second}: put it where the second "
            "text is to be read."
        )
    if second in prompt and not labels.pairs:
        raise InputError(
            f"writers.prompt has {second}, and the records have one text: take it out."
        )
