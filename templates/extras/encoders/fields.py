"""The config.json of an encoder: fields that change its numbers are supported or refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import read_json
from core.base.settings import CoreSettings

# Fields without effect on hidden states: about training, heads, generation and the file.
HARMLESS = set(
    """
    _attn_implementation _attn_implementation_internal _commit_hash _name_or_path _num_labels
    architectures attn_implementation attention_probs_dropout_prob auto_map bos_token_id
    chunk_size_feed_forward classifier_dropout classifier_dropout_prob cls_token_id
    decoder_start_token_id directionality dropout attention_dropout dtype embedding_dropout
    eos_token_id finetuning_task generator_hidden_size gradient_checkpointing
    hidden_dropout_prob id2label initializer_cutoff_factor initializer_factor initializer_range
    keys_to_ignore_at_inference label2id legacy mask_token_id max_length mlp_dropout
    model_max_length model_type name net_structure_type num_labels num_memory_blocks
    output_attentions output_hidden_states output_past pad_token_id pooler_dropout
    pooler_fc_size pooler_hidden_act pooler_hidden_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type problem_type qa_dropout reference_compile
    repad_logits_with_grad return_dict seq_classif_dropout sep_token_id sparse_pred_ignore_index
    sparse_prediction summary_activation summary_last_dropout summary_type summary_use_proj
    task_specific_params tie_encoder_decoder tie_word_embeddings tie_weights_ tokenizer_class
    torch_dtype torchscript transformers_version use_bfloat16 use_cache
    classifier_activation classifier_bias classifier_pooling decoder_bias deterministic_flash_attn
    down_scale_factor gap_size layers_to_keep language vocab_type output_vocab_size
    """.split()
)
# Unsupported features: field -> the value that switches it off.
ALLOWED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
    "sinusoidal_pos_embds": False,
}
GELU, TANH_GELU = "gelu", "gelu_tanh"
ACTIVATIONS = {
    "gelu": GELU,
    "gelu_python": GELU,
    "gelu_new": TANH_GELU,
    "gelu_fast": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "gelu_accurate": TANH_GELU,
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


class Fields:
    """The fields of a model's config.json; `finish` prints the unread ones.

    Args:
        path: the file.
        values: additional fields.
    """

    def __init__(self, path: Path, values: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.values = dict(read_json(path) if values is None else values)
        self.asked: set[str] = set()
        if not isinstance(self.values.get("model_type", ""), str):
            raise InputError(
                f"{path}: model_type = {self.values['model_type']!r} is not a name: fetch the "
                "config.json of the model again."
            )
        for name, allowed in ALLOWED.items():
            self.require(name, allowed)

    @property
    def kind(self) -> str:
        """The family in config.json."""
        return self.values.get("model_type", "bert")

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field.

        Raises:
            InputError: it is absent and has no default.
        """
        self.asked.add(name)
        value = self.values.get(name)
        if value is None and default is None:
            raise InputError(
                f"{self.path} has no {name}: fetch the config.json of the model again."
            )
        return default if value is None else value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a count.

        Raises:
            InputError: not a whole number, or below 0.
        """
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"{self.path}: {name} = {value!r} is not a number of something.")
        return value

    def real(self, name: str, default: float) -> float:
        """Return a field that is a positive number.

        Raises:
            InputError: not a number above 0.
        """
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise InputError(f"{self.path}: {name} = {value!r} is not a number above 0.")
        return float(value)

    def require(self, name: str, *allowed: Any) -> None:
        """Refuse other values of a field; the first value is the default.

        Raises:
            InputError: another value.
        """
        self.asked.add(name)
        value = self.values.get(name)
        if value is not None and value not in allowed:
            shown = " or ".join(map(repr, allowed))
            raise InputError(
                f"{self.path}: {name} = {value!r}, and {self.kind} is computed here with {shown} "
                "only: choose an encoder that was trained so."
            )

    def activation(self, name: str = "hidden_act", default: str = "gelu") -> str:
        """Return our name of an activation.

        Raises:
            InputError: it is unknown.
        """
        value = self.get(name, default)
        if value not in ACTIVATIONS:
            raise InputError(
                f"{self.path}: {name} = {value!r} is not an activation that is known here: choose "
                f"an encoder with {', '.join(ACTIVATIONS)}."
            )
        return ACTIVATIONS[value]

    def sizes(self, settings: CoreSettings) -> dict[str, Any]:
        """Return the arguments of all families, and the dropout of the settings."""
        width, heads = self.number("hidden_size"), self.number("num_attention_heads")
        if not heads or width % heads:
            raise InputError(
                f"{self.path}: hidden_size = {width} can't be shared by {heads} attention heads: "
                "fetch the config.json of the model again."
            )
        return {
            "vocabulary_size": self.number("vocab_size"),
            "num_layers": self.number("num_hidden_layers"),
            "num_heads": heads,
            "hidden_dim": width,
            "intermediate_dim": self.number("intermediate_size"),
            "dropout": settings.dropout,
            "attention_dropout": settings.attention_dropout,
            "name": "encoder",
        }

    def finish(self) -> None:
        """Print the unknown fields, because they may change what the model computes."""
        unknown = sorted(self.values.keys() - self.asked - HARMLESS)
        if unknown:
            print(
                f"warning: {self.path}: {', '.join(unknown)} not known here: compare what the "
                "encoder computes if they change more than its training."
            )
