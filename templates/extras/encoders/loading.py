"""From a folder to an encoder: which family it is, and which file holds the weights."""

from collections.abc import Callable
from pathlib import Path

import keras

from core.base.errors import InputError, gist
from core.base.settings import CoreSettings
from extras.encoders import bert, deberta, families, modernbert
from extras.encoders.fields import Fields
from extras.encoders.weights import SAFETENSORS, TORCH, Weights, has_weights, read_weights

# model_type of config.json -> what makes the encoder.
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
    "deberta-v2": deberta.make_deberta,
    "modernbert": modernbert.make_modernbert,
}
LANDMARKS = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")


HUB = "hf://"


def load_backbone(settings: CoreSettings, folder: Path) -> keras.Model | None:
    """Return the encoder of a folder with its weights; None: its family is not known here.

    Raises:
        InputError: a field of config.json or the weights don't fit.
    """
    names = ("config.json", "bert_config.json")
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        return None
    fields = Fields(path)
    make = FAMILIES.get(fields.kind)
    if make is None:
        return None
    if settings.encoder.startswith(HUB) and not has_weights(folder):
        fetch_torch_files(settings.encoder.removeprefix(HUB))
    if not has_weights(folder):
        raise InputError(
            f"encoder = {settings.encoder!r} can't be loaded ({folder} has neither {SAFETENSORS} "
            f"nor {TORCH}, nor a checkpoint of Google's code): save the weights there."
        )
    weights = read_weights(folder)
    for landmark in LANDMARKS:
        weights.strip_prefix(landmark)
    encoder = make(fields, weights, settings)
    weights.finish()
    fields.finish()
    return encoder


def fetch_torch_files(handle: str) -> None:
    """Fetch the weights of a model on the Hugging Face hub that has no safetensors.

    Raises:
        InputError: they can't be downloaded.
    """
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(handle, allow_patterns=["pytorch_model*.bin", "*.ckpt*"])
    except Exception as error:  # requests, httpx or the hub's own, by version
        raise InputError(
            f"{HUB}{handle}: its weights can't be downloaded ({gist(error)}): check the "
            "connection, or set encoder to a local folder that holds the model."
        ) from error
