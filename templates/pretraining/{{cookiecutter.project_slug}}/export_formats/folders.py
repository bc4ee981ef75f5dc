"""Write an encoder into a folder that others load: in the format of Hugging Face, or a preset."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import keras
import keras_hub
import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from core.base.errors import InputError
from core.base.extras import need
from core.base.files import write_json, write_text
from core.encoders.encoder import BertEncoder
from corpus.special_tokens import name_special_tokens
from export_formats.hugging_face import (
    WEIGHTS,
    LanguageModel,
    head_module,
    make_config,
    name_weights,
    vocabulary_of,
)


def check_free(folder: Path) -> None:
    """Refuse a folder that is there already, before any work.

    Raises:
        InputError: it exists, or its parent is not writable.
    """
    if folder.exists():
        raise InputError(f"{folder} exists already: name a new folder, or delete that one.")
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{folder} can't be made in {parent}: name another place.")


def check_apart(folder: Path, preset: Path) -> None:
    """Refuse a preset in the place of the folder in Hugging Face format, or around it.

    Raises:
        InputError: it would be.
    """
    if preset.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise InputError(f"--preset {preset} would hold {folder}, too: name two folders.")


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder next to `folder`, then move it into place."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".writing-") as temporary:
        filled = Path(temporary) / folder.name
        filled.mkdir()
        write(filled)
        os.replace(filled, folder)


def export_hugging_face(folder: Path, model: LanguageModel, tokenizer: Tokenizer) -> None:
    """Write an encoder and its head; arguments as in `write_hugging_face`."""
    encoder, causal = model.encoder, model.objective == "causal"
    # A bidirectional BERT that was read from files of another family is written as that family.
    if isinstance(encoder, BertEncoder) and (causal or not getattr(encoder, "origin", None)):
        write_hugging_face(folder, make_config(model, tokenizer), name_weights(model), tokenizer)
        return
    config, weights, files = head_module(encoder).describe(model, tokenizer)
    write_files(folder, config, weights, *files)


def export_writer(folder: Path, writer: keras.Model, tokenizer: Tokenizer) -> None:
    """Write a writer of the extra `writers`; arguments as in `write_hugging_face`."""
    config, weights = need("writers", "naming").describe_encoder(writer)
    write_hugging_face(folder, config, weights, tokenizer)


def write_hugging_face(
    folder: Path, config: dict, weights: dict[str, np.ndarray], tokenizer: Tokenizer
) -> None:
    """Write config, weights and vocabulary as Hugging Face has them.

    Args:
        folder: that is made.
        config: the content of config.json.
        weights: tensors by name.
        tokenizer: of the model.
    """
    names = {f"{name}_token": token for name, token in name_special_tokens(tokenizer).items()}
    settings = {
        # Reads tokenizer.json unchanged; a BertTokenizer would make its own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "do_lower_case": is_lowercase(tokenizer),
        "model_max_length": config["max_position_embeddings"],
        **names,
    }
    is_word_piece = isinstance(tokenizer.model, WordPiece)
    vocabulary = "".join(f"{t}\n" for t in vocabulary_of(tokenizer)) if is_word_piece else None
    write_files(folder, config, weights, json.loads(tokenizer.to_str()), settings, vocabulary)


def write_files(
    folder: Path,
    config: dict,
    weights: dict[str, np.ndarray],
    tokenizer: dict,
    settings: dict,
    vocabulary: str | None,
) -> None:
    """Write the files of a model and its tokenizer.

    Args:
        folder: that is made.
        config: the content of config.json.
        weights: tensors by name.
        tokenizer: the content of tokenizer.json.
        settings: the content of tokenizer_config.json.
        vocabulary: the content of vocab.txt; None: no such file.
    """

    def write(target: Path) -> None:
        write_json(target / "config.json", config)
        # Not save_file: its files are readable only by their owner.
        (target / WEIGHTS).write_bytes(save(weights, metadata={"format": "pt"}))
        write_json(target / "tokenizer.json", tokenizer)
        write_json(target / "tokenizer_config.json", settings)
        names = {name: token for name, token in settings.items() if name.endswith("_token")}
        write_json(target / "special_tokens_map.json", names)
        if vocabulary is not None:
            write_text(target / "vocab.txt", vocabulary)

    write_folder(folder, write)


def export_preset(folder: Path, encoder: BertEncoder, tokenizer: Tokenizer) -> None:
    """Write an encoder as KerasHub's own BertBackbone, with its tokenizer.

    Args:
        folder: that is made.
        encoder: that was trained.
        tokenizer: of the encoder.
    """
    kept = keras_hub.models.BertBackbone(**plain_config(encoder))
    kept.set_weights(encoder.get_weights())
    words = keras_hub.models.BertTokenizer(
        vocabulary=vocabulary_of(tokenizer),
        lowercase=is_lowercase(tokenizer),
        strip_accents=strips_accents(tokenizer),
    )

    def write(target: Path) -> None:
        kept.save_to_preset(str(target))
        words.save_to_preset(str(target))

    write_folder(folder, write)


def check_preset(encoder: keras.Model) -> None:
    """Refuse an encoder that KerasHub would compute otherwise.

    Raises:
        InputError: it is no BERT, or was trained with the exact GELU.
    """
    if not isinstance(encoder, BertEncoder):
        raise InputError(
            f"--preset writes a BERT, and this run trained a {type(encoder).__name__}: export only "
            "the folder in Hugging Face format."
        )
    if encoder.exact_gelu:
        raise InputError(
            "--preset: KerasHub's BertBackbone approximates GELU by tanh, and this encoder was "
            "trained with the exact one, so a preset would give other hidden states: export only "
            "the folder in Hugging Face format."
        )


def plain_config(encoder: BertEncoder) -> dict:
    """Return what KerasHub's own BertBackbone is made from."""
    own = ("exact_gelu", "attention_dropout", "dtype", "name", "trainable")
    return {name: value for name, value in encoder.get_config().items() if name not in own}


def normalizer_of(tokenizer: Tokenizer) -> dict:
    """Return what the tokenizer does to characters; empty: nothing that BERT knows."""
    found = json.loads(tokenizer.to_str())["normalizer"] or {}
    return found if found.get("type") == "BertNormalizer" else {}


def is_lowercase(tokenizer: Tokenizer) -> bool:
    """Tell whether case is lost."""
    return bool(normalizer_of(tokenizer).get("lowercase", False))


def strips_accents(tokenizer: Tokenizer) -> bool:
    """Tell whether accents are removed; by default they are if the case is, as in BERT."""
    stripped = normalizer_of(tokenizer).get("strip_accents")
    return is_lowercase(tokenizer) if stripped is None else bool(stripped)
