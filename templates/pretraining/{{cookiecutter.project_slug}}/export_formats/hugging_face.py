"""The weights of a BERT under the names of Hugging Face: written, and the head read again."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer

from core.base.extras import need, present
from core.base.files import read_json
from core.encoders.encoder import BertEncoder, local_folder
from corpus.special_tokens import name_special_tokens

WEIGHTS = "model.safetensors"
HEAD = "cls.predictions"
# A variable of Keras, and what makes an array of Hugging Face of its value.
Named = tuple[str, keras.Variable, Callable[[np.ndarray], np.ndarray]]


class LanguageModel(Protocol):
    """A BERT with its head, as a task builds it.

    Attributes:
        encoder: whose token embedding scores the vocabulary, too.
        objective: `causal` where tokens see only those before them.
        head_dense: of the head.
        head_norm: after it.
        bias: of the vocabulary.
    """

    encoder: BertEncoder
    objective: str
    head_dense: keras.layers.Dense
    head_norm: keras.layers.LayerNormalization
    bias: keras.Variable


def from_inputs(kernel: np.ndarray) -> np.ndarray:
    """Return `[outputs, inputs]` of a kernel `[inputs, ...]`."""
    return kernel.reshape(len(kernel), -1).T


def to_outputs(kernel: np.ndarray) -> np.ndarray:
    """Return `[outputs, inputs]` of a kernel `[..., outputs]`."""
    return kernel.reshape(-1, kernel.shape[-1]).T


def as_it_is(table: np.ndarray) -> np.ndarray:
    """Return an embedding table."""
    return table


def dense(name: str, layer: keras.layers.Layer, kernel: Callable = from_inputs) -> Iterator[Named]:
    """Yield kernel and bias of a Dense layer."""
    yield f"{name}.weight", layer.kernel, kernel
    yield f"{name}.bias", layer.bias, np.ravel


def normalization(name: str, layer: keras.layers.Layer) -> Iterator[Named]:
    """Yield scale and offset of a normalisation."""
    yield f"{name}.weight", layer.gamma, np.ravel
    yield f"{name}.bias", layer.beta, np.ravel


def encoder_weights(encoder: BertEncoder) -> Iterator[Named]:
    """Yield all weights of an encoder."""
    embeddings = "bert.embeddings"
    tables = {
        "word_embeddings": encoder.token_embedding.embeddings,
        "position_embeddings": encoder.position_embedding.position_embeddings,
        "token_type_embeddings": encoder.segment_embedding.embeddings,
    }
    for name, table in tables.items():
        yield f"{embeddings}.{name}.weight", table, as_it_is
    yield from normalization(f"{embeddings}.LayerNorm", encoder.embeddings_layer_norm)
    for number, layer in enumerate(encoder.transformer_layers):
        place, attention = f"bert.encoder.layer.{number}", layer._self_attention_layer
        for name in ("query", "key", "value"):
            part = getattr(attention, f"{name}_dense")
            yield from dense(f"{place}.attention.self.{name}", part)
        yield from dense(f"{place}.attention.output.dense", attention.output_dense, to_outputs)
        yield from normalization(
            f"{place}.attention.output.LayerNorm", layer._self_attention_layer_norm
        )
        yield from dense(f"{place}.intermediate.dense", layer._feedforward_intermediate_dense)
        yield from dense(f"{place}.output.dense", layer._feedforward_output_dense)
        yield from normalization(f"{place}.output.LayerNorm", layer._feedforward_layer_norm)
    yield from dense("bert.pooler.dense", encoder.pooled_dense)


def head_weights(model: LanguageModel) -> Iterator[Named]:
    """Yield the weights of a head; the table that scores tokens is the encoder's."""
    yield from dense(f"{HEAD}.transform.dense", model.head_dense)
    yield from normalization(f"{HEAD}.transform.LayerNorm", model.head_norm)
    yield f"{HEAD}.bias", model.bias, np.ravel


def name_weights(model: LanguageModel) -> dict[str, np.ndarray]:
    """Return all weights of a model under the names of Hugging Face."""
    named = [*encoder_weights(model.encoder), *head_weights(model)]
    return {
        name: np.ascontiguousarray(change(np.asarray(variable.value, np.float32)))
        for name, variable, change in named
    }


def make_config(model: LanguageModel, tokenizer: Tokenizer) -> dict:
    """Return what Hugging Face calls the settings of this model.

    Args:
        model: that was trained.
        tokenizer: whose token for padding is named.
    """
    encoder, causal = model.encoder, model.objective == "causal"
    dropout = encoder.dropout if encoder.attention_dropout is None else encoder.attention_dropout
    numbers = {
        name: tokenizer.token_to_id(token) for name, token in name_special_tokens(tokenizer).items()
    }
    # Whoever writes with it begins and ends a text as in its training.
    around = {"bos_token_id": numbers["cls"], "eos_token_id": numbers["sep"]} if causal else {}
    return {
        "model_type": "bert",
        "architectures": ["BertLMHeadModel" if causal else "BertForMaskedLM"],
        "is_decoder": causal,
        "vocab_size": encoder.vocabulary_size,
        "hidden_size": encoder.hidden_dim,
        "num_hidden_layers": encoder.num_layers,
        "num_attention_heads": encoder.num_heads,
        "intermediate_size": encoder.intermediate_dim,
        "hidden_act": "gelu" if encoder.exact_gelu else "gelu_new",
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": dropout,
        "max_position_embeddings": encoder.max_sequence_length,
        "type_vocab_size": encoder.num_segments,
        "layer_norm_eps": encoder.embeddings_layer_norm.epsilon,
        "pad_token_id": numbers["pad"],
        **around,
        "tie_word_embeddings": True,
    }


def head_module(encoder: keras.Model) -> Any:
    """Return the module of an extra that has the head of another family than BERT."""
    return need("writers" if hasattr(encoder, "write") else "encoders", "language_model")


def load_head(model: LanguageModel, encoder: str) -> None:
    """Give the head the weights that the encoder was trained with, where its folder has them.

    Args:
        model: whose encoder has its weights already.
        encoder: the setting that says where these came from.
    """
    # A decoder scores the vocabulary itself.
    has_head = hasattr(model, "head_dense")
    folder = local_folder(encoder) if has_head and encoder != "tiny" else None
    if folder is not None and "encoders" in present():
        need("encoders", "language_model").load_head(model, encoder, folder)
        return
    if folder is None or not (folder / WEIGHTS).is_file():
        return
    if read_json(folder / "config.json").get("vocab_size") != model.encoder.vocabulary_size:
        return
    with safe_open(folder / WEIGHTS, "np") as file:
        # Older files call the parts of a normalisation otherwise.
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        known = set(file.keys())
        found = {}
        for name, variable, _ in head_weights(model):
            part = ".".join(name.split(".")[-2:])
            other = name.replace(part, old.get(part, part))
            stored = next((key for key in (name, other) if key in known), None)
            if stored is None:
                print(f"{encoder} has no head of a language model: it starts anew.")
                return
            found[name] = variable, file.get_tensor(stored)
    for variable, value in found.values():
        variable.assign(value.T if value.ndim == 2 else value)


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens in the order of their numbers."""
    numbers = tokenizer.get_vocab()
    return sorted(numbers, key=numbers.__getitem__)
