"""Checkpoints of Google's code and its derivatives: BERT, ALBERT, ELECTRA, NEZHA, RoFormer.

Such a folder has a TensorFlow 1 checkpoint and a bert_config.json without the family. The names of
the weights identify the family.
"""

import re
from pathlib import Path

import numpy as np
import tensorflow as tf

from core.base.errors import InputError, gist
from core.base.files import read_json
from extras.encoders.fields import Fields
from extras.encoders.weights import Weights

CONFIGS = ("*bert_config*.json", "*discriminator_config.json")
SUFFIX = ".index"
# Names in these checkpoints -> names in Hugging Face files.
NAMES = (
    (r"^module/", ""),
    (r"(^|/)(kernel|gamma|embeddings)$", r"\1weight"),
    (r"(^|/)beta$", r"\1bias"),
    (r"(word|position|token_type|task_type)_embeddings$", r"\1_embeddings/weight"),
    (r"layer_(\d+)/", r"layer/\1/"),
    (r"encoder/embedding_hidden_mapping_in/", "embeddings_project/"),
    # ALBERT's; brightmart's Chinese models have one shared layer.
    (r"encoder/transformer/group_(\d+)/", r"encoder/albert_layer_groups/\1/"),
    (r"/inner_group_(\d+)/", r"/albert_layers/\1/"),
    (r"encoder/layer_shared/", "encoder/albert_layer_groups/0/albert_layers/0/"),
    (r"/attention_1/", "/attention/"),
    (r"/ffn_1/intermediate/output/dense/", "/output/dense/"),
    (r"/ffn_1/intermediate/dense/", "/intermediate/dense/"),
    (r"(albert_layers/\d+)/LayerNorm_1/", r"\1/output/LayerNorm/"),
    (r"(albert_layers/\d+)/LayerNorm/", r"\1/attention/output/LayerNorm/"),
)
OF_THE_OPTIMIZER = re.compile(r"(adam_[mv]|lamb_[mv]|_power|global_step|/Adam(_1)?)$")
WORDS, PROJECTION = "embeddings.word_embeddings.weight", "embeddings.word_embeddings_2"


def find_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, as prefixes of their files."""
    prefixes = [path.with_suffix("") for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return [prefix for prefix in prefixes if prefix.name]


def find_config(folder: Path) -> Path | None:
    """Return the config file of a folder's encoder; None: it has none.

    Raises:
        InputError: there are several, or a checkpoint has none.
    """
    config = folder / "config.json"
    # A saved KerasHub preset has a config.json, too.
    if config.is_file() and {"model_type", "hidden_size"} & set(read_json(config)):
        return config
    found = sorted({path for pattern in CONFIGS for path in folder.glob(pattern)})
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(f"{folder} has {names}: leave the one that belongs to the weights.")
    if not found and not config.is_file() and find_checkpoints(folder):
        raise InputError(
            f"{folder} has a checkpoint, but not the bert_config.json that tells its sizes: "
            "fetch that too, or the same model in Hugging Face format."
        )
    return found[0] if found else None


def read_checkpoint(prefix: Path) -> dict[str, np.ndarray]:
    """Return name -> array of a checkpoint, in Hugging Face's names and layout."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        names = [name for name in reader.get_variable_to_shape_map()]
        values = {n: reader.get_tensor(n) for n in names if not OF_THE_OPTIMIZER.search(n)}
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(f"{prefix} can't be read ({gist(error)}): fetch it again.") from error
    tensors = {}
    for name, value in values.items():
        value = value.T if name.endswith("kernel") else value
        for pattern, replacement in NAMES:
            name = re.sub(pattern, replacement, name)
        tensors[name.replace("/", ".")] = value
    return tensors


def guess_family(fields: Fields, weights: Weights) -> str:
    """Return the family of weights if config.json does not name it.

    Args:
        fields: of config.json.
        weights: by the names in their file.

    Raises:
        InputError: two families are possible.
    """
    names = weights.tensors.keys()
    if any("albert_layer_groups" in name for name in names):
        return "albert"
    if any(name.startswith(("electra.", "discriminator_predictions")) for name in names):
        return "electra"
    if any("position_embeddings" in name for name in names):
        return "bert"
    if any("relative_position" in name for name in fields.values):
        return "nezha"
    if any("LayerNorm" in name for name in names):
        raise InputError(
            f"{fields.path}: its weights have no positions, as those of NEZHA and of RoFormer: "
            'add the field "model_type": "nezha" or "roformer", whichever it is.'
        )
    return "roformer"


def complete_albert(fields: Fields, weights: Weights) -> None:
    """Convert ALBERT's fields and weights from Google's code to Hugging Face's format."""
    # Its `gelu` is the tanh approximation.
    if fields.values.get("hidden_act", "gelu") == "gelu":
        fields.values["hidden_act"] = "gelu_new"
    if PROJECTION in weights.tensors:
        # brightmart projects only words, before the sum of embeddings, so their product is stored.
        projection = weights.tensors.pop(PROJECTION)
        weights.change(WORDS, lambda table: table @ projection)
        fields.values["embedding_size"] = 0
    fields.require("ln_type", "postln")
