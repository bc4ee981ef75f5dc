"""Pretrained writers in the place of the models of text generation, where `model` asks for one.

Decoder-only ones are encoders of text classification, too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.settings import CoreSettings
from extras.writers.settings import classifies, learns_texts

if TYPE_CHECKING:  # nothing is loaded before a model is built
    import keras


def load_backbone(settings: CoreSettings, folder: Path) -> "keras.Model | None":
    """Return the writer of a folder; None: an encoder is asked for."""
    from extras.writers import families

    return families.make_writer(settings, folder)


def load_tokenizer(
    name: str, folder: Path | None, settings: CoreSettings | None = None
) -> Tokenizer | None:
    """Return the tokenizer of a writer's folder; None: it is not one, or core reads it."""
    from extras.writers import chat, families, files, frames, language_model

    family = families.FAMILIES.get(files.read_family(folder)) if folder else None
    if folder is None or family is None:
        return None
    if learns_texts(settings):
        families.check_objective(settings, files.read_family(folder))
        return language_model.load_framed(folder)
    if family.is_decoder and classifies(settings):
        return frames.load_framed(folder, settings)
    # A causal BERT learned that [SEP] ends a text: its source keeps it.
    leaves_end = family.is_decoder and files.read_family(folder) != files.CAUSAL_BERT
    table: Any = getattr(settings, "writers", None)
    if table is None or not table.chat:
        return files.load_tokenizer(folder, leaves_end)
    tokenizer = files.load_tokenizer(folder, leaves_end) if family.is_decoder else None
    if tokenizer is None:
        raise InputError(
            f"writers.chat needs a decoder-only model with a tokenizer.json, and {name} is not "
            'one: set writers.chat = "".'
        )
    return chat.attach(tokenizer, chat.read_template(folder, table.chat))


def build_models(encoder: "keras.Model", labels: Any, settings: Any) -> None:
    """Build nothing: refuse what does not fit a decoder that reads texts, or its records.

    Raises:
        InputError: a pooling that no decoder has, or a prompt or words for other records.
    """
    from extras.writers.decoder import Decoder

    table: Any = getattr(settings, "writers", None)  # None: whoever builds has no use for extras
    prompt, second = (table.prompt if table else ""), "{text_b}"
    if not isinstance(encoder, Decoder):
        if table and (table.prompt or table.chat or table.answers or table.weights == "random"):
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
    if encoder.answers:
        from extras.writers.answers import check_answers

        check_answers(encoder, labels, settings)
