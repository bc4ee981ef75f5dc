"""From a folder to an encoder: find its family and the file of its weights."""

from collections.abc import Callable
from pathlib import Path

import keras

from core.base.errors import InputError, gist
from core.base.settings import CoreSettings
from extras.encoders import bert, deberta, families, google, modernbert, mpnet
from extras.encoders.fields import Fields
from extras.encoders.torch_files import read_torch_file
from extras.encoders.weights import (
    SAFETENSORS,
    TORCH,
    Weights,
    read_parts,
    read_safetensors,
    renamed,
)

# model_type of config.json -> function that makes the encoder.
FAMILIES: dict[str, Callable[[Fields, Weights, CoreSettings], keras.Model]] = {
    "bert": bert.make_bert,
    "ernie": bert.make_bert,
    "roberta": bert.make_roberta,
    "xlm-roberta": bert.make_roberta,
    "camembert": bert.make_roberta,
    "distilbert": bert.make_distilbert,
    "electra": families.make_electra,
    "albert": families.make_albert,
    "nezha": families.make_nezha,
    "roformer": families.make_roformer,
    "roformer_v2": families.make_roformer,
    "deberta-v2": deberta.make_deberta,
    "modernbert": modernbert.make_modernbert,
    "mpnet": mpnet.make_mpnet,
}
LANDMARKS = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")
HUB = "hf://"


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the encoder of a folder with its weights; None: an unknown family.

    Raises:
        InputError: a field of config.json or the weights don't fit.
    """
    path = google.find_config(folder)
    if path is None:
        return None
    fields = Fields(path)
    if "model_type" in fields.values and fields.kind not in FAMILIES:
        return None
    if settings.encoder.startswith(HUB) and not has_weights(folder):
        fetch_torch_files(settings.encoder.removeprefix(HUB))
    if not has_weights(folder):
        raise InputError(
            f"encoder = {settings.encoder!r} can't be loaded ({folder} has neither {SAFETENSORS} "
            f"nor {TORCH}, nor a checkpoint of Google's code): save the weights there."
        )
    weights = read_weights(folder)
    family = fields.values.get("model_type") or google.guess_family(fields, weights)
    fields.values["model_type"] = family
    for landmark in LANDMARKS:
        weights.strip_prefix(landmark)
    if family == "albert" and path.name != "config.json":
        google.complete_albert(fields, weights)
    encoder = FAMILIES[family](fields, weights, settings)
    weights.finish()
    fields.finish()
    return encoder


def has_weights(folder: Path) -> bool:
    """Return whether a folder has readable weights."""
    names = (SAFETENSORS, TORCH)
    files = [folder / name for name in (*names, *(f"{name}.index.json" for name in names))]
    return any(file.is_file() for file in files) or bool(google.find_checkpoints(folder))


def read_weights(folder: Path) -> Weights:
    """Read the weights of a folder from the first existing of these files.

    The order is safetensors, `pytorch_model.bin`, both also in several files with an index, and a
    checkpoint of Google's code. `has_weights` says whether there are any.

    Raises:
        InputError: they are damaged, or there are several checkpoints.
    """
    readers: dict[str, Callable] = {SAFETENSORS: read_safetensors, TORCH: read_torch_file}
    for name, read in readers.items():
        path, index = folder / name, folder / f"{name}.index.json"
        if path.is_file():
            return renamed(Weights(path, read(path)))
        if index.is_file():
            return renamed(Weights(index, read_parts(index, read)))
    checkpoints = google.find_checkpoints(folder)
    if len(checkpoints) > 1:
        raise InputError(f"{folder} has {len(checkpoints)} checkpoints: leave only one there.")
    return Weights(checkpoints[0], google.read_checkpoint(checkpoints[0]))


def fetch_torch_files(handle: str) -> None:
    """Download the weights of a Hugging Face model without safetensors.

    Raises:
        InputError: they can't be downloaded.
    """
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(handle, allow_patterns=["pytorch_model*.bin", "*.ckpt*"])
    except Exception as error:  # an error of requests, httpx or the hub, depending on the version
        raise InputError(
            f"{HUB}{handle}: its weights can't be downloaded ({gist(error)}): check the "
            "connection, or set encoder to a local folder that holds the model."
        ) from error
