"""Encoders: tiny from scratch, a KerasHub preset, or a BERT in Hugging Face format."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
from safetensors import safe_open
from tokenizers import BertWordPieceTokenizer, Tokenizer

from core.base.errors import InputError, gist
from core.base.extras import ask, how_to_get, need, present
from core.base.files import project_path, read_json, write_json
from core.base.settings import CoreSettings, RecordSettings
from core.data.records import collect
from core.data.tokens import load_tokenizer_file, train_on, train_tokenizer
from core.fast.transformer import exact_gelu_function, fuse_layer, tanh_gelu_function

# Names of the tanh approximation in the config.json of Hugging Face.
TANH_GELUS = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh")
# How messages end: about texts that are too long, and about encoders that core can't read.
LONGER_TEXTS = "; longer texts are cut, or split into windows; extras/long_documents joins these"
OR_THE_EXTRA = "" if "encoders" in present() else f"; or {how_to_get('encoders')}, which reads more"


@keras.saving.register_keras_serializable("common")
class BertEncoder(keras_hub.models.BertBackbone):
    """BERT with a choice of GELU and its own dropout for attention weights.

    KerasHub's BERT always approximates GELU by tanh. Models trained elsewhere use the exact GELU,
    and their hidden states would differ by 3e-3.

    Args:
        exact_gelu: x Phi(x) instead of its approximation.
        attention_dropout: dropout of attention weights; None: as `dropout`.
        **kwargs: as in `keras_hub.models.BertBackbone`.

    Example:

    >>> encoder = BertEncoder(
    ...     vocabulary_size=9, num_layers=1, num_heads=2, hidden_dim=4, intermediate_dim=8
    ... )
    >>> inputs = {name: np.ones((2, 3), "int32") for name in encoder.input}
    >>> tuple(encoder(inputs)["sequence_output"].shape)
    (2, 3, 4)
    """

    def __init__(
        self, *, exact_gelu: bool = True, attention_dropout: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.exact_gelu = exact_gelu
        self.attention_dropout = attention_dropout
        for layer in self.transformer_layers:
            fuse_layer(layer)
            # Both: a clone is made from the attribute of the layer.
            layer.activation = self.gelu
            layer._feedforward_intermediate_dense.activation = self.gelu
            if attention_dropout is not None:
                attention = layer._self_attention_layer
                attention._dropout = attention._dropout_layer.rate = attention_dropout

    @property
    def gelu(self) -> Callable:
        """The activation of the feed-forward layers."""
        return exact_gelu_function if self.exact_gelu else tanh_gelu_function

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "exact_gelu": self.exact_gelu,
            "attention_dropout": self.attention_dropout,
        }


def load_tokenizer(
    settings: RecordSettings, examples: Sequence, texts_of: Any = None, train: Any = train_tokenizer
) -> Tokenizer:
    """Return the tokenizer of the encoder; `tiny` learns its own from the texts of examples.

    Raises:
        InputError: the encoder's folder has no tokenizer, or only one that gives no offsets.
    """
    if settings.encoder == "tiny":
        options = {"texts_of": texts_of, "train": train, "size": settings.tiny_vocabulary}
        state, count = collect(functools.partial(train_on, **options), examples)
        print(f"vocabulary of tiny: learned from {count} texts")
        return Tokenizer.from_str(state)
    name, folder = settings.encoder, local_folder(settings.encoder)
    if (tokenizer := ask("load_tokenizer", name, folder, settings)) is not None:
        return tokenizer
    if folder and (folder / "tokenizer.json").is_file():
        return load_tokenizer_file(folder / "tokenizer.json")
    if folder and (folder / "vocab.txt").is_file():
        config = folder / "tokenizer_config.json"
        options = split_options(read_json(config) if config.is_file() else {})
        read = functools.partial(BertWordPieceTokenizer.from_file, **options)
        return load_tokenizer_file(folder / "vocab.txt", read)._tokenizer
    if not folder:
        raise InputError(
            f"encoder = {name!r} is no folder of this project, and no preset of KerasHub: name a "
            "folder of Hugging Face files, or hf://owner/model."
        )
    raise InputError(
        f"encoder = {name!r} lacks config.json, or a tokenizer in tokenizer.json or vocab.txt: "
        f"save model and tokenizer there, in the fast format of Hugging Face{OR_THE_EXTRA}."
    )


def split_options(config: dict[str, Any]) -> dict[str, Any]:
    """Return how BERT's tokenizer splits texts, from tokenizer_config.json."""
    return {
        "lowercase": bool(config.get("do_lower_case", True)),
        "strip_accents": config.get("strip_accents"),  # None: where letters become small
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
    }


def load_encoder(settings: CoreSettings, tokenizer: Tokenizer) -> keras.Model:
    """Return the encoder: a functional model from token ids to hidden states.

    Raises:
        InputError: there is no such encoder, or `max_length` is longer than it can read.
    """
    windows = ask("encoder_windows", settings)
    most = windows.length if windows else settings.max_length  # tokens that are read at once
    if settings.encoder == "tiny":
        return BertEncoder(
            vocabulary_size=tokenizer.get_vocab_size(),
            num_layers=settings.tiny_layers,
            num_heads=max(1, settings.tiny_width // 64),
            hidden_dim=settings.tiny_width,
            intermediate_dim=4 * settings.tiny_width,
            max_sequence_length=most,
            dropout=settings.dropout,
            attention_dropout=settings.attention_dropout,
            name="encoder",
        )
    folder = local_folder(settings.encoder)
    loaded = ask("load_backbone", settings, folder) if folder else None
    exact_gelu = uses_exact_gelu(folder) if folder and loaded is None else False
    loaded = loaded or from_preset(keras_hub.models.Backbone, settings.encoder, folder)
    longest = getattr(loaded, "max_sequence_length", None)
    if longest and most > longest:
        name = "long_documents.window" if windows else "max_length"
        raise InputError(
            f"{name} = {most}, but {settings.encoder} reads {longest} tokens at most: set {name} = "
            f"{longest}{'' if windows else LONGER_TEXTS}."
        )
    rows = loaded.token_embedding.input_dim
    # An added token may have no row, as that of pictures in Gemma 3: texts don't hold it.
    added = sum(number >= rows for number in tokenizer.get_added_tokens_decoder())
    if (tokens := tokenizer.get_vocab_size() - added) > rows:
        raise InputError(
            f"{settings.encoder}: the tokenizer has {tokens} tokens, the encoder {rows}: take both "
            "from the same model."
        )
    if type(loaded) is not keras_hub.models.BertBackbone:
        return loaded
    if not all(np.isfinite(weight).all() for weight in loaded.get_weights()):
        raise InputError(f"{settings.encoder}: its weights are not all finite: fetch it again.")
    file = (folder or Path(settings.encoder)) / "model.safetensors"
    names = safe_open(file, "np").keys() if file.is_file() else []
    if any(f"layer.{loaded.num_layers}." in name for name in names):
        raise InputError(f"{file} has more layers than config.json names: fetch both again.")
    config = {
        **loaded.get_config(),
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "exact_gelu": exact_gelu,
        "name": "encoder",
    }
    encoder = BertEncoder.from_config(config)
    encoder.set_weights(loaded.get_weights())
    return encoder


def uses_exact_gelu(folder: Path) -> bool:
    """Return whether a BERT in Hugging Face format has the exact GELU.

    Raises:
        InputError: config.json asks for something that KerasHub would ignore.
    """
    config = read_json(folder / "config.json")
    computed = {
        "model_type": ("bert",),
        "hidden_act": ("gelu", *TANH_GELUS),
        "layer_norm_eps": (1e-12,),
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
    }
    for field, values in computed.items():
        if config.get(field, values[0]) not in values:
            raise InputError(
                f"{folder / 'config.json'}: {field} = {config[field]!r}, but core computes "
                f"{values[0]!r}: choose an encoder that was trained so{OR_THE_EXTRA}."
            )
    return config.get("hidden_act", "gelu") == "gelu"


def encoder_inputs(encoder: keras.Model) -> dict[str, keras.KerasTensor]:
    """Return new inputs with the names of the encoder's: integers `[batch, length]`."""
    return {
        tensor.name: keras.Input((None,), dtype="int32", name=tensor.name)
        for tensor in encoder.inputs
    }


def hidden_states(
    encoder: keras.Model, inputs: dict[str, keras.KerasTensor], settings: CoreSettings | None = None
) -> keras.KerasTensor:
    """Return the hidden states of an encoder: `[batch, length, width]`.

    Args:
        encoder: from `load_encoder`.
        inputs: from `encoder_inputs`.
        settings: of the task, if its texts may be encoded in windows, or its layers joined.
    """
    windows = ask("encoder_windows", settings) if settings else None
    if (table := getattr(settings, "encoders", None)) and table.last_layers > 1:
        encoder = need("encoders", "last_layers").join_last_layers(encoder, table.last_layers)
    hidden = encoder(windows.split(inputs) if windows else inputs)
    hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden
    return windows.join(hidden, inputs) if windows else hidden


def save_encoder(folder: Path, encoder: keras.Model, tokenizer: Tokenizer) -> None:
    """Write architecture and tokenizer into a run; the weights are saved with the model."""
    write_json(folder / "encoder.json", keras.saving.serialize_keras_object(encoder))
    write_json(folder / "tokenizer.json", json.loads(tokenizer.to_str()))


def restore_encoder(folder: Path) -> tuple[keras.Model, Tokenizer]:
    """Return the encoder of a run, without its weights, and its tokenizer.

    Raises:
        InputError: the folder is no run, or its encoder needs an extra that was deleted.
    """
    saved = read_json(folder / "encoder.json")
    found = ask("load_tokenizer", str(folder), folder)  # imports the layers of extras, too
    try:
        encoder = keras.saving.deserialize_keras_object(saved)
    except (ImportError, TypeError) as error:
        missing = f"{folder}: its encoder, {saved.get('class_name')}, is not in this project"
        raise InputError(f"{missing}: restore what has it{OR_THE_EXTRA}.") from error
    return encoder, found or load_tokenizer_file(folder / "tokenizer.json")


def local_folder(name: str) -> Path | None:
    """Return the folder of an encoder in Hugging Face format; None: a preset of KerasHub."""
    if name.startswith("hf://"):
        return download(name.removeprefix("hf://"))
    folder = project_path(name)
    if not folder.is_dir():
        if "/" in name and "://" not in name or name.startswith((".", "~")):
            raise InputError(
                f"encoder = {name!r} is not a folder: give its path from the project's folder, "
                "or hf://owner/model."
            )
        return None
    # A preset of KerasHub that was saved in a folder has a config.json, too.
    config = folder / "config.json"
    named = config.is_file() and "model_type" in read_json(config)
    return folder if named or ask("find_config", folder) else None


def from_preset(kind: Any, name: str, folder: Path | None = None) -> Any:
    """Load a preset of KerasHub, or a folder in a format that it can convert."""
    saved = project_path(name)
    try:
        return kind.from_preset(str(folder or (saved if saved.is_dir() else name)))
    except Exception as error:  # KerasHub raises whatever its downloaders and converters raise
        raise InputError(
            f"encoder = {name!r} can't be loaded ({gist(error)}): name a KerasHub preset, "
            f"hf://owner/model, or a folder with config.json and model.safetensors{OR_THE_EXTRA}."
        ) from error


def download(handle: str) -> Path:
    """Return the local copy of a model on the Hugging Face hub."""
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]
    try:
        return Path(snapshot_download(handle, allow_patterns=patterns))
    except Exception as error:  # requests, httpx or the hub's own, by version
        raise InputError(
            f"hf://{handle} can't be downloaded ({gist(error)}): check the name and the "
            "connection, or set encoder to a local folder that holds the model."
        ) from error
