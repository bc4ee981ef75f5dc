"""The frozen weights of a run: identified by their hash, read again from their source."""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import MANIFEST, read_json, write_json, write_whole
from core.base.workers import broadcast, is_chief
from core.encoders.encoder import load_encoder, load_tokenizer
from core.runs.manifest import note_files
from core.runs.run import Run
from extras.lora.adapters import Base, base_weights, hash_weights, merge_when_loaded
from extras.lora.settings import Settings

# A run's record of its base, and the base itself if it has no files.
NOTE, KEPT = "lora.json", "lora_base.npz"
MEGABYTE = 1e6


def check_base(settings: Settings, run: Run, encoder: keras.Model) -> None:
    """Record the base of a new run; compare that of a resumed run.

    Raises:
        InputError: the base differs from the run's first one, or from the chief's.
    """
    base: Base = encoder.lora_base
    if broadcast(base.hash) != base.hash:
        raise InputError(
            f"encoder = {settings.encoder!r} has other weights on this worker than on the first: "
            "copy its files to all."
        )
    if not is_chief():
        return
    path = run.folder / MANIFEST
    if NOTE in (read_json(path) if path.is_file() else {}):
        refuse_other_base(settings, run.folder, base.hash)
    else:
        write_json(run.folder / NOTE, {"base": base.hash, "kernels": base.kernels})
        if base.arrays is not None:
            arrays = base.arrays
            write_whole(run.folder / KEPT, lambda temporary: np.savez(temporary, *arrays))
            encoder.lora_base = replace(base, arrays=None)
        note_files(run.folder, NOTE, KEPT)
    print(describe(settings, encoder))


def refuse_other_base(settings: Settings, folder: Path, found: str) -> None:
    """Compare the hash of a base with that of a run.

    Raises:
        InputError: they differ.
    """
    if read_json(folder / NOTE).get("base") != found:
        raise InputError(
            f"encoder = {settings.encoder!r} is not the one that {folder.name} was begun with, "
            "whose weights it needs besides its updates: restore its files, or train again with "
            "--overwrite true."
        )


def describe(settings: Settings, encoder: keras.Model) -> str:
    """Describe in one line the trained weights, and the memory of the others."""
    base: Base = encoder.lora_base
    frozen = [weight for weight in encoder.weights if hasattr(weight, "frozen")]
    trained = sum(weight.shape.num_elements() for weight in encoder.trainable_weights)
    held = sum(np.prod(weight.shape) * np.dtype(weight.dtype).itemsize for weight in frozen)
    as_floats = f", {base.size / MEGABYTE:.1f} MB as float32" * (settings.lora.base != "float")
    untaught = ", and are random: name a pretrained encoder" * (settings.encoder == "tiny")
    return (
        f"lora: updates of rank {settings.lora.rank} for {len(base.kernels)} kernels, "
        f"{trained:,} weights of the encoder are trained; {held / MEGABYTE:.1f} MB stay as they "
        f"are{as_floats}{untaught}"
    )


def read_base_again(
    settings: Settings, folder: Path, encoder: keras.Model, tokenizer: Tokenizer
) -> None:
    """Load the base of a run's encoder, and let it add the updates of a file.

    Raises:
        InputError: the base is gone, or differs from the run's first one.
    """
    if settings.encoder == "tiny":
        with np.load(folder / KEPT) as kept:
            arrays = [kept[name] for name in kept.files]
    else:
        arrays = read_arrays(settings, encoder, tokenizer)
    refuse_other_base(settings, folder, hash_weights(arrays))
    for weight, array in zip(base_weights(encoder), arrays, strict=True):
        weight.assign(array)
    merge_when_loaded(settings, encoder, read_json(folder / NOTE)["kernels"])


def read_arrays(settings: Settings, encoder: keras.Model, tokenizer: Tokenizer) -> list[np.ndarray]:
    """Return the weights of the settings' encoder, in the order of `base_weights`.

    Only the tokens of the run's tokenizer are kept, which may be fewer.
    """
    whole = load_tokenizer(settings, [])  # type: ignore[arg-type]
    loaded = load_encoder(settings, whole)
    arrays = [np.asarray(weight) for weight in base_weights(loaded)]
    tokens = encoder.token_embedding.input_dim
    if tokens == loaded.token_embedding.input_dim:
        return arrays
    rows = [whole.token_to_id(tokenizer.id_to_token(number) or "") or 0 for number in range(tokens)]
    table = loaded.token_embedding.embeddings
    weights = base_weights(loaded)
    return [
        array[rows] if weight is table else array
        for weight, array in zip(weights, arrays, strict=True)
    ]
