"""Pretrained writers in the place of the models of text generation, where `model` asks for one."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import read_json
from core.base.settings import CoreSettings
from core.model.encoder import load_encoder
from extras.writers import files
from extras.writers.families import FAMILIES
from extras.writers.settings import SOURCE, Settings

CHOSEN = "pretrained"  # the `model` that this extra makes


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the writer of a folder; None: an encoder is asked for.

    Raises:
        InputError: the folder has another family, or a model of another kind is asked for.
    """
    model, family = getattr(settings, "model", None), read_family(folder)
    if model != CHOSEN:
        if model is not None and family in FAMILIES:
            raise InputError(
                f"{settings.encoder} is a {family}, which writes by itself: set model = "
                f'"{CHOSEN}", or choose an encoder.'
            )
        return None
    if family not in FAMILIES:
        raise InputError(
            f'model = "{CHOSEN}" needs a writer, and {settings.encoder} is a {family or "preset"}: '
            f'choose one of the families {", ".join(FAMILIES)}, or model = "unilm".'
        )
    fields = files.Fields(folder / "config.json")
    weights, ends = files.open_weights(folder), files.read_ends(folder, fields)
    writer = FAMILIES[family].make(fields, weights, settings, ends)
    weights.finish()
    fields.finish()
    check_room(settings, writer, FAMILIES[family].is_decoder)
    return writer


def load_writer(settings: CoreSettings, tokenizer: Tokenizer) -> keras.Model:
    """Return the writer that `encoder` names.

    Raises:
        InputError: it is a preset of KerasHub, which is not in Hugging Face's format.
    """
    writer = load_encoder(settings, tokenizer)
    if not hasattr(writer, "write"):
        raise InputError(
            f'model = "{CHOSEN}" needs a folder in the format of Hugging Face, or '
            f"hf://owner/model, and encoder = {settings.encoder!r} is a preset: name such a folder."
        )
    return writer


def check_room(settings: CoreSettings, writer: keras.Model, is_decoder: bool) -> None:
    """Refuse targets that a writer has no positions for.

    Raises:
        InputError: they are too long.
    """
    room, target = writer.max_sequence_length, getattr(settings, "target_length", 0)
    needed = settings.max_length + target if is_decoder else target + 1
    if room and needed > room:
        what = "max_length + target_length" if is_decoder else "target_length + 1"
        raise InputError(
            f"{what} = {needed}, but {settings.encoder} has {room} positions: lower one."
        )


def load_tokenizer(name: str, folder: Path | None) -> Tokenizer | None:
    """Return the tokenizer of a writer's folder; None: it is not one, or core reads it."""
    if folder is None or (family := read_family(folder)) not in FAMILIES:
        return None
    return files.load_tokenizer(folder, FAMILIES[family].is_decoder)


def read_family(folder: Path) -> str:
    """Return the model_type of a folder's config.json; empty: it has none, as a run."""
    path = folder / "config.json"
    return str(read_json(path).get("model_type", "")) if path.is_file() else ""


def encode_prompts(
    tokenizer: Tokenizer, sources: Sequence[str], settings: Settings
) -> list[np.ndarray] | None:
    """Return the tokens of each prompt with its source; long sources lose their end.

    Args:
        tokenizer: of the writer.
        sources: texts.
        settings: `model`, `max_length`, the table `writers`.

    Returns:
        None: another model reads sources alone.

    Raises:
        InputError: the prompt leaves no room for a source.
    """
    if getattr(settings, "model", None) != CHOSEN:
        return None
    prompt = settings.writers.prompt or (SOURCE if files.ends_texts(tokenizer) else f"{SOURCE}\n")
    before, after = prompt.split(SOURCE)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode_batch([before + source + after for source in sources])
    found = []
    for source, encoding in zip(sources, encoded, strict=True):
        while (excess := len(encoding.ids) - settings.max_length) > 0:
            ends = [end - len(before) for start, end in encoding.offsets if end > start]
            ends = [end for end in ends if 0 < end <= len(source)]
            if len(ends) <= excess:
                raise InputError(
                    f"writers.prompt leaves no room for a source in max_length = "
                    f"{settings.max_length}: shorten it, or raise max_length."
                )
            # Tokens may be others where a text is cut: it is encoded anew until it fits.
            source = source[: min(ends[-excess - 1], len(source) - 1)]
            encoding = tokenizer.encode(before + source + after)
        found.append(np.array(encoding.ids, np.int32))
    return found
