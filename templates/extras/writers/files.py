"""The files of a writer's folder: config.json, weights and tokenizer, in Hugging Face's format."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, processors

from core.base.errors import InputError, gist
from core.base.extras import how_to_get, need, present
from core.base.files import read_json
from core.data.tokens import load_tokenizer_file
from extras.writers import chat

SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
HUB = "hf://"
# Tensors without a prefix, and tensors with the same token table.
HEAD, SCORE_BIAS, BERT_HEAD = "lm_head.weight", "final_logits_bias", "cls.predictions"
SHARED = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# The family of a BERT whose config.json has is_decoder = true; others are encoders.
CAUSAL_BERT = "bert decoder"
POSITIONS = "embeddings.position_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
# Fields without effect on logits: about training, generation and the file.
HARMLESS = set(
    """
    _attn_implementation _attn_implementation_autoset _name_or_path activation_dropout
    add_bias_logits add_cross_attention architectures attention_dropout attn_pdrop auto_map
    bad_words_ids begin_suppress_tokens bos_token_id cache_implementation
    chunk_size_feed_forward classif_dropout classifier_dropout cross_attention_hidden_size
    decoder_layerdrop decoder_start_token_id diversity_penalty do_sample dropout dropout_rate
    dtype early_stopping embd_pdrop encoder_layerdrop encoder_no_repeat_ngram_size eos_token_id
    exponential_decay_length_penalty finetuning_task force_bos_token_to_be_generated
    forced_bos_token_id forced_eos_token_id gradient_checkpointing hidden_dropout_prob id2label
    init_std initializer_factor initializer_range is_decoder is_encoder_decoder
    keys_to_ignore_at_inference label2id layerdrop length_penalty max_length min_length
    model_type n_positions no_repeat_ngram_size num_beam_groups num_beams num_hidden_layers
    num_return_sequences output_attentions output_hidden_states output_past output_scores
    pad_token_id prefix pretraining_tp problem_type pruned_heads remove_invalid_values
    repetition_penalty resid_pdrop return_dict return_dict_in_generate save_step sep_token_id
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder
    tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version
    typical_p use_bfloat16 use_cache
    """.split()
)


class Fields:
    """The fields of a config.json; `finish` prints the unread ones.

    Args:
        path: the file.
        values: its content, if the file does not exist yet.
    """

    def __init__(self, path: Path, values: dict[str, Any] | None = None) -> None:
        self.path = path
        values = read_json(path) if values is None else values
        self.kind = family_of(values)
        # Gemma 3 with pictures has the fields of its text apart, but for these.
        both = ("quantization_config", "eos_token_id", "tie_word_embeddings")
        whole = {name: values[name] for name in both if name in values}
        text = values.get("text_config")
        self.values: dict[str, Any] = {**whole, **text} if text else values
        self.asked: set[str] = set()

    def get(self, name: str, default: Any) -> Any:
        """Return a field, or `default` if it is absent or null."""
        self.asked.add(name)
        value = self.values.get(name)
        return default if value is None else value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a count.

        Raises:
            InputError: absent without default, or not a whole number from 0 on.
        """
        value = self.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(
                f"{self.path}: {name} = {value!r} is not a number of something: fetch the "
                "config.json of the model again."
            )
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

    def require(self, name: str, allowed: Any) -> None:
        """Refuse all values of a field except its default.

        Raises:
            InputError: another value.
        """
        value = self.get(name, allowed)
        if value != allowed:
            raise InputError(
                f"{self.path}: {name} = {value!r}, and {self.kind} is computed here with "
                f"{allowed!r} only: choose a writer that was trained so."
            )

    def skip(self, *names: str) -> None:
        """Mark fields as read."""
        self.asked |= {*names}

    def finish(self) -> None:
        """Print the unknown fields, because they may change what the model computes."""
        unknown = sorted(
            name
            for name, value in self.values.items()
            if name not in self.asked | HARMLESS and value is not None
        )
        if unknown:
            print(
                f"warning: {self.path}: {', '.join(unknown)} not known here: compare what the "
                "writer computes if they change more than its training."
            )


class Weights:
    """Named tensors that are read when needed.

    Args:
        path: their file, for messages.
        readers: name -> function that reads the tensor.
    """

    def __init__(self, path: Path, readers: dict[str, Callable[[], np.ndarray]]) -> None:
        self.path, self.readers = path, readers
        self.used: set[str] = set()
        self.missing: list[str] = []

    def has(self, name: str) -> bool:
        """Return whether there is a tensor."""
        return name in self.readers

    def default(self, name: str, shape: tuple[int, ...]) -> None:
        """Replace an absent tensor by zeros."""
        self.readers.setdefault(name, lambda: np.zeros(shape, np.float32))

    def strip_prefix(self, landmark: str) -> None:
        """Strip the names up to `landmark`; the head keeps its name."""
        found = [name for name in self.readers if name.endswith(landmark)]
        if landmark in found or not found:
            return
        prefix = min(found, key=len).removesuffix(landmark)
        self.readers = {
            HEAD if name.endswith(HEAD) else name.removeprefix(prefix): read
            for name, read in self.readers.items()
        }

    def find_shared(self) -> str:
        """Return the name of the token table that both sides share."""
        self.strip_prefix("encoder.layers.0.fc1.weight")
        self.used |= {*SHARED}  # the others are the same
        return next((name for name in SHARED if name in self.readers), SHARED[0])

    def join_segments(self, rows: int, width: int) -> None:
        """Add the first segment, that of all tokens, to the positions of a BERT."""
        self.used.add(SEGMENTS)
        self.default(SEGMENTS, (rows, width))
        if POSITIONS in self.readers:
            places, segments = self.readers[POSITIONS], self.readers[SEGMENTS]
            self.readers[POSITIONS] = lambda: places() + segments()[:1]

    def split_gpt2(self) -> None:
        """Split queries, keys and values of GPT-2; its matrices are transposed."""

        def turned(read: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
            return lambda: np.ascontiguousarray(read().T)

        def part(read: Callable[[], np.ndarray], number: int) -> Callable[[], np.ndarray]:
            return lambda: np.split(read().T, 3)[number]

        readers: dict[str, Callable[[], np.ndarray]] = {}
        for name, read in self.readers.items():
            if ".attn.c_attn." in name:
                for number, own in enumerate(("query", "key", "value")):
                    readers[name.replace("c_attn", own)] = part(read, number)
            elif is_turned(name):
                readers[name] = turned(read)
            elif not name.endswith((".attn.bias", ".attn.masked_bias")):  # attention masks
                readers[name] = read
        self.readers = readers

    def assign(self, layer: keras.layers.Layer, name: str) -> None:
        """Assign the weights of a layer: a name and `.weight` or `.bias`."""
        for variable in layer.weights:
            kind = variable.name.rpartition("/")[2]
            if kind in ("bias", "beta"):
                self.put(variable, f"{name}.bias")
            else:
                self.put(variable, f"{name}.weight", transposed=kind == "kernel")

    def put(
        self, variable: keras.Variable, name: str, transposed: bool = False, first_row: int = 0
    ) -> None:
        """Assign the value of a tensor to a variable.

        Args:
            variable: of a layer.
            name: of the tensor.
            transposed: whether the tensor is transposed.
            first_row: the first used row.

        Raises:
            InputError: the tensor has another shape, or is not finite.
        """
        self.used.add(name)
        if name not in self.readers:
            self.missing.append(name)
            return
        value = self.readers[name]()[first_row:]
        value = value.T if transposed else value
        if value.size != np.prod(variable.shape) or value.shape[-1] != variable.shape[-1]:
            raise InputError(
                f"{self.path}: {name} has the shape {list(value.shape)}, but config.json asks for "
                f"{list(variable.shape)}: take both from the same model."
            )
        if not np.isfinite(value).all():
            raise InputError(
                f"{self.path}: {name} holds numbers that are not finite: fetch the file again, or "
                "take an earlier checkpoint of its training."
            )
        variable.assign(value.reshape(variable.shape))

    def finish(self) -> None:
        """Print the number of unused tensors.

        Raises:
            InputError: tensors are missing.
        """
        if self.missing:
            shown = ", ".join(self.missing[:3]) + ("..." if len(self.missing) > 3 else "")
            raise InputError(
                f"{self.path} lacks {len(self.missing)} tensors ({shown}): it is not of the model "
                "that its config.json describes, or not whole; fetch both again."
            )
        unread = sorted(name for name in self.readers if name not in self.used)
        unread = [name for name in unread if not name.endswith((HEAD, "inv_freq"))]
        if unread:
            shown = ", ".join(unread[:3]) + ("..." if len(unread) > 3 else "")
            print(f"note: {self.path}: {len(unread)} tensors not used by the writer: {shown}")


class UnreadWeights(Weights):
    """Tensor names without reading: the layers keep their initial values."""

    def put(self, *_: Any, **__: Any) -> None:
        """Keep a variable unchanged."""

    def finish(self) -> None:
        """Print nothing, because no tensor is used."""


def family_of(values: dict[str, Any]) -> str:
    """Return the family in a config.json: its model_type, or `CAUSAL_BERT`; empty without one."""
    kind = str(values.get("model_type", ""))
    return CAUSAL_BERT if kind == "bert" and values.get("is_decoder") else kind


def is_turned(name: str) -> bool:
    """Return whether a matrix of GPT-2 lies the other way round than those of others."""
    return name.endswith((".c_proj.weight", ".c_fc.weight"))


def open_weights(folder: Path, kind: type[Weights] = Weights) -> Weights:
    """Return the weights of a folder from the first existing file.

    The order is `model.safetensors`, then `pytorch_model.bin` with the extra `encoders`, both also
    in several files with an index.

    Args:
        folder: of the writer.
        kind: `UnreadWeights` for only the names; the folder may then have no weights.

    Raises:
        InputError: there are none, or they are damaged.
    """
    openers: dict[str, Callable[[Path], dict]] = {SAFETENSORS: open_safetensors, TORCH: open_torch}
    for name, open_file in openers.items():
        path, index = folder / name, folder / f"{name}.index.json"
        if path.is_file():
            return kind(path, open_file(path))
        if index.is_file():
            parts = sorted(set(read_json(index).get("weight_map", {}).values()))
            readers: dict[str, Callable] = {}
            for part in parts:
                if not (folder / part).is_file():
                    raise InputError(f"{index} names {part}, which is absent: fetch it again.")
                readers |= open_file(folder / part)
            return kind(index, readers)
    if kind is UnreadWeights:
        return kind(folder, {})
    raise InputError(
        f"{folder} has neither {SAFETENSORS} nor {TORCH}: save the weights of the writer there."
    )


def fetch_weights(encoder: str, folder: Path) -> None:
    """Download the weights of a model on the hub that has none as safetensors, with `encoders`."""
    names = (SAFETENSORS, f"{SAFETENSORS}.index.json", TORCH, f"{TORCH}.index.json")
    if encoder.startswith(HUB) and not any((folder / name).is_file() for name in names):
        if "encoders" in present():
            need("encoders", "loading").fetch_torch_files(encoder.removeprefix(HUB))


def open_safetensors(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Return name -> function that reads the tensor; all become float32."""
    try:
        file = safe_open(path, framework="tf")
        names = list(file.keys())
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} can't be read ({gist(error)}): fetch it again.") from error

    def reader(name: str) -> Callable[[], np.ndarray]:
        return lambda: tf.cast(file.get_tensor(name), tf.float32).numpy()

    return {name: reader(name) for name in names}


def open_torch(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Return name -> function that reads a tensor of a torch file, by the extra `encoders`."""
    if "encoders" not in present():
        raise InputError(
            f"{path} is a file of torch: {how_to_get('encoders')}, which reads it, or save the "
            f"weights as {SAFETENSORS}."
        )
    tensors = need("encoders", "torch_files").read_torch_file(path)

    def reader(name: str) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(tensors[name], np.float32)

    return {name: reader(name) for name in tensors}


def read_ends(folder: Path, fields: Fields) -> list[int]:
    """Return the tokens that end a text; the first is from config.json.

    Raises:
        InputError: no file names one.
    """
    stored = folder / "generation_config.json"
    others = read_json(stored).get("eos_token_id") if stored.is_file() else None
    ends: list[Any] = []
    for named in (fields.values.get("eos_token_id"), others):
        ends += named if isinstance(named, list) else [named]
    found = list(dict.fromkeys(token for token in ends if isinstance(token, int)))
    if not found:
        raise InputError(
            f"{fields.path} has no eos_token_id, so nothing tells where a target ends: add it."
        )
    return found


def load_tokenizer(folder: Path, is_decoder: bool) -> Tokenizer | None:
    """Return the tokenizer of a folder; None: core reads it.

    A decoder's source gets no end token, because the target follows it.

    Raises:
        InputError: an encoder's source would get no end token.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    tokenizer = load_tokenizer_file(path)
    if not is_decoder and not ends_texts(tokenizer):
        raise InputError(
            f"{path} puts no end behind a text, and the encoder of this writer was trained with "
            "one: save the tokenizer of the model there."
        )
    if is_decoder and ends_texts(tokenizer):
        around = tokenizer.encode("").tokens
        begin = around[:1] if len(around) > 1 else []
        numbers = [(token, tokenizer.token_to_id(token)) for token in begin]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*begin, "$A"], special_tokens=numbers
        )
    return tokenizer


def ends_texts(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer puts an end behind a text, as those of encoders do."""
    return tokenizer.encode("a").ids[-1] in tokenizer.encode("").ids


def read_family(folder: Path) -> str:
    """Return the family in a folder's config.json; empty without one, as in a run."""
    path = folder / "config.json"
    return family_of(read_json(path)) if path.is_file() else ""


def encode_prompts(
    tokenizer: Tokenizer, sources: Sequence[str], table: Any, most: int
) -> list[np.ndarray]:
    """Return the tokens of each prompt with its source; long sources lose their end.

    Args:
        tokenizer: of the writer.
        sources: texts.
        table: `prompt` with `{source}`; empty: the source, for decoders followed by a line break.
            With `chat` the prompt is what the user says.
        most: maximum tokens of a prompt.

    Raises:
        InputError: the prompt leaves no room for a source.
    """
    template = chat.carried_by(tokenizer) if table.chat else None
    around = template.renderer(table) if template else str
    is_whole = template or ends_texts(tokenizer)
    prompt = table.prompt or ("{source}" if is_whole else "{source}\n")

    def lay_out(source: str) -> str:
        return around(prompt.replace("{source}", source))

    first = lay_out(chat.PLACE).index(chat.PLACE)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode_batch([lay_out(source) for source in sources])
    found = []
    for source, encoding in zip(sources, encoded, strict=True):
        while (excess := len(encoding.ids) - most) > 0:
            ends = [end - first for start, end in encoding.offsets if end > start]
            ends = [end for end in ends if 0 < end <= len(source)]
            if len(ends) <= excess:
                raise InputError(
                    f"writers.prompt leaves no room for a source in max_length = {most}: "
                    "shorten it, or raise max_length."
                )
            # Cutting a text may change its tokens, so it is encoded again until it fits.
            source = source[: min(ends[-excess - 1], len(source) - 1)]
            encoding = tokenizer.encode(lay_out(source))
        # A decoder goes on from the last token, so there is one: a line break.
        ids = encoding.ids or tokenizer.encode("\n", add_special_tokens=False).ids
        found.append(np.array(ids, np.int32))
    return found
