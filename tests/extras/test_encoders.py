"""The extra `encoders`: families and files against transformers, and what it refuses.

What transformers computes stands in encoder_numbers.json, written by tests/encoder_peer.py; that of
RoFormerV2 is by bert4keras3, see tests/roformer_v2_peer.py. Where a
Python has torch and transformers, see tests/peer.py, every number is compared.
"""

import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import encoder_peer
import huggingface_hub
import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from encoder_peer import KINDS, LENGTHS, OTHERS
from peer import needs_peer, peer_python, run_peer
from safetensors.numpy import save_file
from small_models import without_encoders

from core.base.errors import InputError
from core.base.settings import RecordSettings, with_tables
from core.data.tokens import exact_offsets, train_tokenizer
from core.encoders.encoder import (
    BertEncoder,
    encoder_inputs,
    hidden_states,
    load_encoder,
    load_tokenizer,
    local_folder,
    restore_encoder,
    save_encoder,
)
from core.exact.dropout import Masks, named_layers, place_dropout
from core.layers.global_pointer import EfficientGlobalPointer
from core.step import Models, TrainingModel
from extras.doctor.model_checks import draws_by_replica, find_config_faults, find_split_faults
from extras.encoders import memory, mpnet, naming
from extras.optimizers.toolbox import decayed_rates, freeze_layers
from extras.recompute.recompute import recompute_layers
from extras.tpu.compile_checks import find_lowering_faults
from extras.tpu.static_checks import find_dynamic_shapes

NUMBERS = json.loads((ROOT / "tests/extras/encoder_numbers.json").read_text(encoding="utf-8"))
SEGMENTS = "embeddings.token_type_embeddings.weight"
LANDMARK = "embeddings.word_embeddings.weight"
LETTERS = [chr(ord("a") + index) for index in range(26)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)]


def settings_for(encoder, **changes) -> RecordSettings:
    values = {"encoder": str(encoder), "max_length": 48, "dropout": 0.0, **changes}
    return with_tables(RecordSettings)(**values)


def load(folder: Path, **changes) -> keras.Model:
    settings = settings_for(folder, **changes)
    return load_encoder(settings, load_tokenizer(settings, []))


def seeded_state(kind: str) -> dict[str, np.ndarray]:
    """Return the weights that transformers had for the numbers of a kind."""
    return {
        name: encoder_peer.seeded(name, tuple(shape))
        for name, shape in NUMBERS[kind]["shapes"].items()
    }


def write_model(folder: Path, kind: str = "bert", state=None, **fields) -> Path:
    """Make a folder with config.json, vocab.txt and model.safetensors; None leaves a field out."""
    folder.mkdir(exist_ok=True)
    config = {**NUMBERS[kind]["config"], **fields}
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    save_file(seeded_state(kind) if state is None else state, folder / "model.safetensors")
    return folder


def states(encoder: keras.Model, read: dict, rows=slice(None), length=None) -> tf.Tensor:
    """Return hidden states of what transformers has read."""
    arrays = {
        "token_ids": read["input_ids"],
        "padding_mask": read["attention_mask"],
        "segment_ids": read.get("token_type_ids", np.zeros_like(read["input_ids"])),
    }
    inputs = {t.name: tf.constant(arrays[t.name][rows, :length], "int32") for t in encoder.inputs}
    outputs = encoder(inputs)
    return outputs["sequence_output"] if isinstance(outputs, dict) else outputs


def states_and_gradient(encoder: keras.Model, read: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden states, and the gradient by the embeddings."""
    with tf.GradientTape() as tape:
        hidden = states(encoder, read)
        product = tf.reduce_sum(hidden * read["cotangent"])
    gradient = tape.gradient(product, encoder.token_embedding.embeddings.value)
    return hidden.numpy(), tf.convert_to_tensor(gradient).numpy()


# ------------------------------------------------------------------ what transformers computes


@pytest.mark.shown("[bert]", "[albert]", "deberta_v3", "modernbert", "[roformer]")
@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_the_numbers_of_transformers(kind, tmp_path, capsys):
    encoder = load(write_model(tmp_path, kind))
    said = capsys.readouterr().out
    assert "warning" not in said
    read = encoder_peer.arrays(kind)
    found = encoder_peer.summary(*states_and_gradient(encoder, read), read)
    np.testing.assert_allclose(found, NUMBERS[kind]["numbers"], atol=2e-5, rtol=1e-5)
    assert encoder.name == "encoder" and encoder.token_embedding.input_dim == 60
    assert encoder.transformer_layers


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A folder for each of `KINDS`, with weights and numbers of transformers."""
    folder = tmp_path_factory.mktemp("models")
    run_peer((ROOT / "tests/encoder_peer.py").read_text(encoding="utf-8"), folder)
    return folder


@needs_peer
@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_and_gradients(models, kind, capsys):
    if not (models / kind).is_dir():
        pytest.skip(f"this transformers has no {KINDS[kind]['model']}")
    (models / kind / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    encoder, peer = load(models / kind), dict(np.load(models / kind / "peer.npz"))
    hidden, gradient = states_and_gradient(encoder, peer)
    mask = peer["attention_mask"] > 0
    seen = np.unique(peer["input_ids"][mask])
    alone = states(encoder, peer, slice(1), LENGTHS[0])
    found = {
        "padded": np.abs(hidden - peer["hidden"])[mask].max(),
        "unpadded": np.abs(alone - peer["unpadded"]).max(),
        "gradients": np.abs(gradient - peer["gradient"])[seen].max(),
    }
    with capsys.disabled():
        parts = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
        print(f"\n{kind}: {parts}; largest gradient {np.abs(peer['gradient']).max():.2f}")
    assert max(found.values()) < 1e-4
    numbers = encoder_peer.summary(peer["hidden"], peer["gradient"], peer)
    np.testing.assert_allclose(numbers, NUMBERS[kind]["numbers"], atol=2e-5, rtol=1e-5)


@needs_peer
@pytest.mark.parametrize("name", ["zip", "legacy", "parts", "bfloat16"])
def test_files_of_torch(models, name):
    folder = models / f"bert_{name}"
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (models / "bert" / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    expected, found = load(models / "bert").get_weights(), load(folder).get_weights()
    for one, other in zip(expected, found, strict=True):
        if name == "bfloat16":
            np.testing.assert_allclose(one, other, rtol=2**-8)
        else:
            np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------------------- other files


class Storage:
    """Stands for a storage of torch in what is pickled."""

    def __init__(self, numbers: np.ndarray, key: str) -> None:
        self.numbers, self.key = numbers, key


class View:
    """Stands for a tensor of torch."""

    def __init__(self, storage: Storage, offset: int, shape: tuple, strides: tuple) -> None:
        self.arguments = (storage, offset, shape, strides, False, OrderedDict())

    def __reduce__(self) -> tuple:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            kind = sys.modules["torch"].FloatStorage
            return ("storage", kind, value.key, "cpu", value.numbers.size)
        return None


@contextlib.contextmanager
def torch_modules() -> Iterator[None]:
    """Names that a pickle of torch has; nothing is behind them."""

    def _rebuild_tensor_v2() -> None: ...

    class FloatStorage: ...

    made = {}
    for name, part in (("torch._utils", _rebuild_tensor_v2), ("torch", FloatStorage)):
        made[name] = types.ModuleType(name)
        part.__module__, part.__qualname__ = name, part.__name__
        setattr(made[name], part.__name__, part)
    with mock.patch.dict(sys.modules, made):
        yield


@pytest.fixture
def torch_names() -> Iterator[None]:
    with torch_modules():
        yield


def views_of(state: dict[str, np.ndarray]) -> tuple[OrderedDict, list[Storage]]:
    """Return tensors, two of which share a storage, and one of which lies the other way round."""
    names = sorted(state)
    shared = Storage(np.concatenate([state[name].ravel() for name in names[:2]]), "0")
    views, storages, offset = OrderedDict(), [shared], 0
    for name in names[:2]:
        shape = state[name].shape
        strides = tuple(np.array(state[name].strides) // 4)
        views[name] = View(shared, offset, shape, tuple(map(int, strides)))
        offset += state[name].size
    for number, name in enumerate(names[2:], start=1):
        value = state[name]
        turned = np.ascontiguousarray(value.T)
        storages.append(Storage(turned.ravel(), str(number)))
        strides = tuple(int(step) // 4 for step in turned.T.strides)
        views[name] = View(storages[-1], 0, value.shape, strides)
    return views, storages


def write_zip(path: Path, pickled: object, storages: list[Storage]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("model/data.pkl", "w") as file:
            Pickler(file, protocol=2).dump(pickled)
        for storage in storages:
            archive.writestr(f"model/data/{storage.key}", storage.numbers.tobytes())


def write_legacy(path: Path, pickled: object, storages: list[Storage]) -> None:
    with open(path, "wb") as file:
        for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(part, file, protocol=2)
        Pickler(file, protocol=2).dump(pickled)
        pickle.dump([storage.key for storage in storages], file, protocol=2)
        for storage in storages:
            file.write(storage.numbers.size.to_bytes(8, "little") + storage.numbers.tobytes())


# From the names of Hugging Face to those of Google's code, for all families and for ALBERT.
TO_GOOGLE = (
    (r"^embeddings_project\.", "encoder.embedding_hidden_mapping_in."),
    (r"encoder\.layer\.(\d+)", r"encoder.layer_\1"),
    (r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)", r"transformer.group_\1.inner_group_\2"),
    (r"(inner_group_\d+\.)attention\.(query|key|value)", r"\1attention_1.self.\2"),
    (r"(inner_group_\d+\.)attention\.dense", r"\1attention_1.output.dense"),
    (r"(inner_group_\d+\.)attention\.LayerNorm", r"\1LayerNorm"),
    (r"(inner_group_\d+\.)ffn_output", r"\1ffn_1.intermediate.output.dense"),
    (r"(inner_group_\d+\.)ffn\.", r"\1ffn_1.intermediate.dense."),
    (r"(inner_group_\d+\.)full_layer_layer_norm", r"\1LayerNorm_1"),
    (r"LayerNorm(_1)?\.weight$", r"LayerNorm\1.gamma"),
    (r"LayerNorm(_1)?\.bias$", r"LayerNorm\1.beta"),
    (r"embeddings\.weight$", "embeddings"),
    (r"\.weight$", ".kernel"),
    (r"\.", "/"),
)


def write_google(
    folder: Path, state: dict[str, np.ndarray], root="bert", file="bert", named=False
) -> None:
    """Make a folder one of Google's: a config that doesn't name the family, and a checkpoint."""
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").unlink()
    (folder / "model.safetensors").unlink(missing_ok=True)
    ours = ("norm_type", "use_bias", "architectures", "rotary_value")
    ours = ours if named else (*ours, "model_type")
    values = {name: value for name, value in values.items() if name not in ours}
    (folder / f"{file}_config.json").write_text(json.dumps(values), encoding="utf-8")
    tensors = {"global_step": np.int64(3)}
    for name, value in state.items():
        for pattern, replacement in TO_GOOGLE:
            name = re.sub(pattern, replacement, name)
        tensors[f"{root}/{name}"] = value.T if name.endswith("kernel") else value
        tensors[f"{root}/{name}/adam_m"] = value
    names = list(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(folder / f"{file}_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("albert", "albert"),
        ("electra", "base_discriminator"),
        ("nezha", "bert"),
        ("roformer", "bert"),
        ("roformer_v2", "bert"),
    ],
)
def test_checkpoints_of_other_families(kind, file, tmp_path, capsys):
    """The names of the weights tell the family; the numbers are those of transformers."""
    folder, state = write_model(tmp_path, kind), seeded_state(kind)
    gelu = {"gelu_new": "gelu"}  # as ALBERT's authors name what they compute
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["hidden_act"] = gelu.get(config["hidden_act"], config["hidden_act"])
    config |= {"nezha": {"use_relative_position": True}}.get(kind, {})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    root, named = "electra" if kind == "electra" else "bert", kind == "roformer"
    write_google(folder, state, root, file, named)
    assert local_folder(str(folder)) == folder
    read = encoder_peer.arrays(kind)
    found = encoder_peer.summary(*states_and_gradient(load(folder), read), read)
    np.testing.assert_allclose(found, NUMBERS[kind]["numbers"], atol=2e-5, rtol=1e-5)
    assert "warning" not in capsys.readouterr().out


def test_the_chinese_albert_whose_words_alone_are_projected(tmp_path):
    """It is a BERT whose layers are the same, with the words' product for its embedding."""
    state = {n: a for n, a in seeded_state("bert").items() if ".layer.1." not in n}
    same = {n.replace(".layer.0.", ".layer.1."): a for n, a in state.items()}
    table, projection = np.split(encoder_peer.seeded("table", (60 + 32, 16)), [60])
    words = "embeddings.word_embeddings.weight"
    fields = {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12}
    whole = {**state, **same, words: table @ projection.T}
    expected = load(write_model(tmp_path / "bert", state=whole, **fields))
    folder = write_model(tmp_path / "albert", hidden_act="gelu", layer_norm_eps=None)
    state = {n.replace(".layer.0.", ".layer_shared."): a for n, a in state.items()}
    state |= {words: table, "embeddings.word_embeddings_2": projection.T}
    write_google(folder, state, file="albert")
    read = encoder_peer.arrays("bert")
    np.testing.assert_allclose(states(expected, read), states(load(folder), read), atol=1e-5)
    config = json.loads((folder / "albert_config.json").read_text(encoding="utf-8"))
    (folder / "albert_config.json").write_text(json.dumps({**config, "ln_type": "preln"}))
    with pytest.raises(InputError, match="ln_type = 'preln', and albert is computed here with"):
        load(folder)


def test_a_checkpoint_wants_one_config(tmp_path):
    write_google(write_model(tmp_path), seeded_state("bert"))
    (tmp_path / "base_discriminator_config.json").write_text("{}")
    with pytest.raises(InputError, match="leave the one that belongs to the weights"):
        load(tmp_path)
    for path in tmp_path.glob("*_config.json"):
        path.unlink()
    with pytest.raises(InputError, match="a checkpoint, but not the bert_config.json"):
        load(tmp_path)


def test_weights_that_may_be_of_two_families(tmp_path):
    write_google(write_model(tmp_path, "roformer"), seeded_state("roformer"))
    with pytest.raises(InputError, match='add the field "model_type": "nezha" or "roformer"'):
        load(tmp_path)


def test_a_config_that_does_not_name_its_family(tmp_path):
    """As those of the first BERTs on the hub."""
    expected = load(write_model(tmp_path / "named"))
    found = load(write_model(tmp_path / "unnamed", model_type=None))
    read = encoder_peer.arrays("bert")
    np.testing.assert_array_equal(states(expected, read), states(found, read))


FORMATS = ("zip", "legacy", "google", "parts", "heads", "torch_parts")


@pytest.mark.parametrize("name", FORMATS)
def test_one_bert_in_several_files_has_the_same_hidden_states(name, torch_names, tmp_path):
    expected = load(write_model(tmp_path / "safetensors"))
    folder, state = write_model(tmp_path / name), seeded_state("bert")
    (folder / "model.safetensors").unlink()
    if name in ("zip", "legacy"):
        write = {"zip": write_zip, "legacy": write_legacy}[name]
        write(folder / "pytorch_model.bin", *views_of(state))
    elif name == "google":
        write_google(folder, state)
    elif name == "heads":
        # With a prefix, with a head, with the old names of normalisations, and without a pooler.
        old = {key: value for key, value in state.items() if not key.startswith("pooler")}
        for new, former in (("LayerNorm.weight", "LayerNorm.gamma"), ("Norm.bias", "Norm.beta")):
            old = {key.replace(new, former): value for key, value in old.items()}
        prefixed = {f"bert.{key}": value for key, value in old.items()}
        prefixed["cls.predictions.bias"] = np.zeros(60, "float32")
        save_file(prefixed, folder / "model.safetensors")
    else:
        names = sorted(state)
        whole = {"parts": "model.safetensors", "torch_parts": "pytorch_model.bin"}[name]
        places = {}
        for part, its in (("one", names[::2]), ("two", names[1::2])):
            content = {key: state[key] for key in its}
            if name == "parts":
                save_file(content, folder / part)
            else:
                write_zip(folder / part, *views_of(content))
            places |= dict.fromkeys(its, part)
        index = json.dumps({"weight_map": places})
        (folder / f"{whole}.index.json").write_text(index, encoding="utf-8")
    read = encoder_peer.arrays("bert")
    np.testing.assert_array_equal(states(expected, read), states(load(folder), read))


@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_a_pickle_that_names_a_program_runs_nothing(write, torch_names, tmp_path):
    folder = write_model(tmp_path)
    (folder / "model.safetensors").unlink()

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    state, storages = views_of(seeded_state("bert"))
    state["evil"] = Evil()
    write(folder / "pytorch_model.bin", state, storages)
    with pytest.raises(InputError, match=r"posix\.system, which is not a tensor: it is not read"):
        load(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (9, 9), (9, 1)), (8, (3,), (1,)), (0, (3,), (-1,)), (-1, (3,), (1,)), (0, (3,), (5,))],
)
def test_a_tensor_beyond_its_storage_is_refused(offset, shape, strides, torch_names, tmp_path):
    storage = Storage(np.zeros(10, "float32"), "0")
    folder = write_model(tmp_path)
    (folder / "model.safetensors").unlink()
    view = View(storage, offset, shape, strides)
    write_zip(folder / "pytorch_model.bin", {"weight": view}, [storage])
    with pytest.raises(InputError, match="its storage: it is not read"):
        load(folder)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "pytorch_model.bin", "bert_model.ckpt.index", "cut.bin"]
)
def test_damaged_weights_get_a_sentence(name, torch_names, tmp_path):
    folder = write_model(tmp_path)
    (folder / "model.safetensors").unlink()
    if name == "cut.bin":
        path = folder / "pytorch_model.bin"
        write_legacy(path, *views_of(seeded_state("bert")))
        path.write_bytes(path.read_bytes()[:-100])
    else:
        (folder / name).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"can't be read|is damaged|cut off"):
        load(folder)
    (folder / name).unlink(missing_ok=True)
    (folder / "pytorch_model.bin").unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"neither model\.safetensors nor pytorch_model\.bin"):
        load(folder)


def test_the_hub_is_asked_for_files_of_torch(torch_names, monkeypatch, tmp_path):
    """Only where it has no safetensors."""
    folder, asked = write_model(tmp_path), []
    (folder / "model.safetensors").unlink()

    def download(handle: str, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        if "pytorch_model*.bin" in allow_patterns:
            write_zip(folder / "pytorch_model.bin", *views_of(seeded_state("bert")))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    for _ in range(2):
        assert isinstance(load("hf://owner/model"), BertEncoder)
    assert [patterns[0] for patterns in asked if "*.ckpt*" in patterns] == ["pytorch_model*.bin"]


# --------------------------------------------------------------------- as any other encoder

# One of each class.
CLASSES = ("bert", "roberta", "albert", "roformer_values", "nezha", "deberta_v3", "deberta_v2")
CLASSES += ("modernbert", "roformer_v2", "mpnet")


def training_model(encoder: keras.Model) -> TrainingModel:
    """Return an encoder that learns to put out small numbers."""
    inputs = encoder_inputs(encoder)
    outputs = keras.layers.Dense(4, name="head")(hidden_states(encoder, inputs))
    loss = keras.layers.Lambda(sum_of_squares, output_shape=(), name="loss")(outputs)
    return TrainingModel(inputs, {"loss": loss})


@keras.saving.register_keras_serializable("tests")
def sum_of_squares(outputs):
    return keras.ops.sum(keras.ops.square(outputs), axis=(1, 2))


def batch_for(kind: str) -> dict[str, np.ndarray]:
    read = encoder_peer.arrays(kind)
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    batch = {name: read[other].astype("int32") for name, other in names.items()}
    batch["segment_ids"] = read.get("token_type_ids", 0 * read["input_ids"]).astype("int32")
    batch["loss_weight"] = np.full(len(LENGTHS), 0.25, "float32")
    return batch


@pytest.mark.shown("[bert]", "modernbert")
@pytest.mark.parametrize("kind", CLASSES)
def test_an_encoder_is_saved_cloned_and_static(kind, tmp_path):
    folder = write_model(tmp_path / "model", kind)
    settings = settings_for(folder, dropout=0.2, attention_dropout=0.1)
    tokenizer = load_tokenizer(settings, [])
    encoder, read = load_encoder(settings, tokenizer), encoder_peer.arrays(kind)
    save_encoder(tmp_path, encoder, tokenizer)
    restored, _ = restore_encoder(tmp_path)
    assert type(restored) is type(encoder) and restored.get_config() == encoder.get_config()
    restored.set_weights(encoder.get_weights())
    np.testing.assert_array_equal(states(restored, read), states(encoder, read))
    assert dropout_rates(restored) == dropout_rates(encoder) == {0.2, 0.1}
    model, batch = training_model(encoder), batch_for(kind)
    batch = {name: batch[name] for name in (*model.input, "loss_weight")}
    for find in (find_config_faults, find_split_faults, find_dynamic_shapes):
        assert find(model, batch) == []
    place_dropout(model, 1)
    layers = [layer for _, layer in named_layers(model)]
    assert all(not draws_by_replica(layer) for layer in layers)
    model.compile(keras.optimizers.Adam(1e-3), 1, False)
    assert find_lowering_faults(model, batch) == []


def dropout_rates(encoder: keras.Model) -> set[float]:
    """Return the rates of all layers that drop something."""
    kinds = keras.layers.Dropout
    return {layer.rate for _, layer in named_layers(encoder) if isinstance(layer, kinds)}


@pytest.mark.shown("[bert]")
@pytest.mark.trains
@pytest.mark.parametrize("kind", CLASSES)
def test_an_encoder_is_recomputed_frozen_and_compiled(kind, tmp_path):
    """The same gradients, dropout on; XLA draws other masks."""
    encoder = load(write_model(tmp_path, kind), dropout=0.2, attention_dropout=0.1)
    model, batch = training_model(encoder), batch_for(kind)
    place_dropout(model, 1)
    inputs = {name: tf.constant(batch[name]) for name in model.input}
    variables = [variable.value for variable in model.trainable_variables]

    def gradients(training: bool = True) -> list[np.ndarray]:
        rows = tf.range(len(LENGTHS))
        with tf.GradientTape() as tape, Masks(tf.constant(3), rows).drawn():
            loss = tf.reduce_sum(model(inputs, training=training)["loss"])
        found = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found]

    plain, unchanged = gradients(), gradients(training=False)
    compiled = tf.function(gradients, jit_compile=True, autograph=False)(training=False)
    assert_near(compiled, unchanged)
    recompute_layers(model)
    assert_near(tf.function(gradients, autograph=False)(), plain)
    assert any(
        np.abs(one - other).max() > 1e-3 for one, other in zip(plain, unchanged, strict=True)
    )
    rates = decayed_rates(encoder, 0.5)
    depth = len(encoder.transformer_layers)
    assert rates[encoder.token_embedding.embeddings.path] == 0.5**depth
    assert rates[encoder.transformer_layers[-1].trainable_variables[0].path] == 1
    freeze_layers(encoder, 2)
    frozen = encoder.transformer_layers[0].variables + encoder.token_embedding.variables
    learned = {variable.path for variable in encoder.trainable_variables}
    assert learned and learned.isdisjoint(variable.path for variable in frozen)


def test_deberta_is_recomputed_in_16_bits(tmp_path):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = load(write_model(tmp_path, "deberta_v3"))
        model, batch = training_model(encoder), batch_for("deberta_v3")
    finally:
        keras.config.set_dtype_policy(before)
    place_dropout(model, 1)
    inputs = {name: tf.constant(batch[name]) for name in model.input}
    variables = [variable.value for variable in model.trainable_variables]

    def gradients() -> list:
        with tf.GradientTape() as tape, Masks(tf.constant(3), tf.range(len(LENGTHS))).drawn():
            loss = tf.reduce_sum(model(inputs, training=True)["loss"])
        found = tape.gradient(loss, variables, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found]

    plain = gradients()
    recompute_layers(model)
    again = tf.function(gradients, autograph=False)()
    one, other = (np.concatenate([np.ravel(part) for part in own]) for own in (plain, again))
    assert np.linalg.norm(one - other) < 0.05 * np.linalg.norm(one)  # but for rounding


def assert_near(one: list, other: list) -> None:
    """Compare gradients; small elements are sums of large ones, and are rounded as these are."""
    largest = max(np.abs(array).max() for array in other)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=5e-5 * largest)


# -------------------------------------------------------------------------------- tokenizers

TEXTS = [
    "Marie Curie was born in Warsaw.",
    "René Magritte painted “The Treachery of Images” (1929) in Zoë's café, didn't he?",
    "腾讯的CEO是马化腾。成立于1998年。",
    "  two  spaces   here ",
    "emoji 😀😃 party 👩\u200d👩\u200d👧 ok",
    "ﬁne ﬂat ½ Å ｆｕｌｌ　ｗｉｄｔｈ１２３ x² ℃ №",
    "e\u0301te\u0301 cafe\u0301, tab\tand\nline\u00a0nbsp",
    "中文 English 混合😀été，“引号”…—",
]


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
def test_a_vocabulary_of_sentencepiece(rule, tmp_path):
    """The ids of sentencepiece itself, and its offsets but for what it calls empty."""
    sentencepiece = pytest.importorskip("sentencepiece")
    names = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    options = {f"{name}_piece": piece for name, piece in names.items()}
    options |= {f"{name}_id": number for number, name in enumerate(names)}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20),
        model_writer=model,
        vocab_size=110,
        hard_vocab_limit=False,
        character_coverage=0.98,
        normalization_rule_name=rule,
        minloglevel=2,
        **options,
    )
    write_model(tmp_path, "deberta_v3")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    (tmp_path / "spm.model").write_bytes(model.getvalue())
    tokenizer = load_tokenizer(settings_for(tmp_path), [])
    reference = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [reference.id_to_piece(number) for number in range(reference.get_piece_size())]
    assert [tokenizer.id_to_token(number) for number in range(len(pieces) + 1)] == [
        *pieces,
        "[MASK]",
    ]
    around = tokenizer.encode("").ids
    assert [tokenizer.id_to_token(number) for number in around] == ["[CLS]", "[SEP]"]
    for text in TEXTS:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        expected = reference.encode(text)
        # Of two ways to cut a text that are as likely, each may take another.
        one, other = (sum(map(reference.get_score, ids)) for ids in (encoding.ids, expected))
        assert encoding.ids == expected or one == pytest.approx(other), text
        starts, ends = exact_offsets(text, encoding.offsets)
        covered = {
            place for start, end in zip(starts, ends, strict=True) for place in range(start, end)
        }
        assert covered == {place for place, letter in enumerate(text) if not letter.isspace()}
    encoding = tokenizer.encode(TEXTS[0], add_special_tokens=False)
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        letters = TEXTS[0].lower() if rule == "nmt_nfkc_cf" else TEXTS[0]
        if token != "▁" and token in tokenizer.get_vocab() and tokenizer.token_to_id(token) > 3:
            assert token.replace("▁", " ").strip() == letters[start:end].strip()


@pytest.mark.parametrize("content", [b"", b"damaged", b"\x0a\x05\x0a\x03abc\x12\x02\x18\x02"])
def test_a_damaged_vocabulary_gets_a_sentence(content, tmp_path):
    write_model(tmp_path, "deberta_v3")
    (tmp_path / "spm.model").write_bytes(content)
    with pytest.raises(InputError, match=r"spm\.model is (damaged|not a unigram model)"):
        load_tokenizer(settings_for(tmp_path), [])


@pytest.mark.parametrize("cased", [True, False])
def test_a_vocabulary_without_a_word_about_case(cased, tmp_path):
    """As in Google's folders."""
    write_model(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    words = [*VOCABULARY, "Warsaw", "warsaw"] if cased else [*VOCABULARY, "warsaw"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = load_tokenizer(settings_for(tmp_path), [])
    found = tokenizer.encode("Warsaw", add_special_tokens=False).tokens
    assert found == ["Warsaw" if cased else "warsaw"]


def test_accents_stay_where_the_folder_says_so(tmp_path):
    write_model(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCABULARY, "caf\u00e9", "cafe"]) + "\n")
    for options, found in (({}, "cafe"), ({"strip_accents": False}, "caf\u00e9")):
        text = json.dumps({"do_lower_case": True, **options})
        (tmp_path / "tokenizer_config.json").write_text(text)
        tokenizer = load_tokenizer(settings_for(tmp_path), [])
        assert tokenizer.encode("CAF\u00c9", add_special_tokens=False).tokens == [found]


def test_the_vocabulary_of_t5_is_not_read_as_that_of_albert(tmp_path):
    """Both call it spiece.model; T5's has case, and no [CLS]."""
    write_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "mt5"}))
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "spiece.model").write_bytes(b"damaged")
    with pytest.raises(InputError, match="or a tokenizer in tokenizer.json or vocab.txt"):
        load_tokenizer(settings_for(tmp_path), [])


def test_the_word_pieces_of_mpnet(tmp_path):
    """Its ends, and the two between a pair, as in the tokenizer.json of all-mpnet-base-v2."""
    write_model(tmp_path, "mpnet")
    words = ["<s>", "<pad>", "</s>", "<unk>", *VOCABULARY[1:2], *VOCABULARY[5:], "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = load_tokenizer(settings_for(tmp_path), [])
    assert tokenizer.encode("").tokens == ["<s>", "</s>"]
    pair = tokenizer.encode("Ab", "É?")
    assert pair.tokens == ["<s>", "a", "##b", "</s>", "</s>", "e", "[UNK]", "</s>"]
    assert pair.offsets[1:3] + pair.offsets[5:7] == [(0, 1), (1, 2), (0, 1), (1, 2)]
    assert tokenizer.encode("a <mask>").tokens == ["<s>", "a", "<mask>", "</s>"]


def test_the_distances_of_mpnet():
    """As `MPNetEncoder.relative_position_bucket` of transformers 5.24 puts them into buckets."""
    places = [-500, -128, -91, -90, -64, -46, -45, -31, -23, -22, -16, -15, -12, -11, -8, -7, -1]
    places += [0, 1, 7, 8, 11, 12, 31, 32, 46, 64, 91, 127, 128, 500]
    buckets = [15, 15, 15, 14, 14, 13, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 1]
    buckets += [0, 17, 23, 24, 24, 25, 27, 28, 29, 30, 31, 31, 31, 31]
    layer = mpnet.DistanceBiases(2, name="relative_embedding")
    layer.build((1, 501, 4))
    table = np.arange(64, dtype="float32").reshape(32, 2)
    layer.embeddings.assign(table)
    biases = np.asarray(layer(np.zeros((1, 501, 4), "float32")))
    for place, bucket in zip(places, buckets, strict=True):
        row, column = max(0, -place), max(0, place)
        assert biases[:, row, column].tolist() == table[bucket].tolist()


# Texts, and where their tokens begin, as transformers 4.46 cuts them with the vocabulary below.
CUT = {
    "今天天气非常好。": "今0 [UNK]1 [UNK]2 [UNK]3 非常4 [UNK]6 。7",
    "北京大学 in Zoë’s": "北京大学0 i5 ##n6 z8 ##o9 ##e10 [UNK]11 s12",
    "😀😃北京 ok": "[UNK]0 [UNK]1 北京2 o5 ##k6",
}


@pytest.fixture
def words(tmp_path) -> Path:
    """A RoFormer whose vocabulary has words."""
    folder = write_model(tmp_path / "words", "roformer")
    found = [*VOCABULARY, "。", "今", "非常", "北京", "大学", "北京大学"]
    (folder / "vocab.txt").write_text("\n".join(found) + "\n", encoding="utf-8")
    return folder


def test_words_of_roformer_are_looked_up_whole(words, tmp_path):
    """Also by what is saved with a run, and by the tokenizer.json that transformers writes."""
    pytest.importorskip("rjieba")
    settings = settings_for(words, max_length=48)
    tokenizer = load_tokenizer(settings, [])
    whole = json.loads((words / "config.json").read_text(encoding="utf-8"))
    state = seeded_state("roformer")
    run = tmp_path / "run"
    save_encoder(run, load(write_model(tmp_path / "small", "roformer")), tokenizer)
    assert whole["model_type"] == "roformer" and state
    (words / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (words / "vocab.txt").unlink()
    copy = pickle.loads(pickle.dumps(tokenizer))  # for another process
    for other in (tokenizer, copy, restore_encoder(run)[1], load_tokenizer(settings, [])):
        for text, expected in CUT.items():
            encoding = other.encode(text, add_special_tokens=False)
            tokens = zip(encoding.tokens, encoding.offsets, strict=True)
            assert " ".join(f"{token}{start}" for token, (start, _) in tokens) == expected
        assert [e.ids for e in other.encode_batch(list(CUT) * 50)] == [
            other.encode(text).ids for text in list(CUT) * 50
        ]
    assert other.encode("").tokens == ["[CLS]", "[SEP]"]


def test_words_want_their_package(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(InputError, match="holds Chinese words, which the package rjieba finds"):
        load_tokenizer(settings_for(words), [])
    config = '{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}'
    (words / "tokenizer_config.json").write_text(config, encoding="utf-8")
    tokenizer = load_tokenizer(settings_for(words), [])
    assert tokenizer.encode("今天非常", add_special_tokens=False).tokens[0] == "今"


# Cuts texts with transformers: python -c TOKENS FOLDER TEXTS
TOKENS = """
import json, sys
from transformers import RoFormerTokenizerFast
tokenizer = RoFormerTokenizerFast.from_pretrained(sys.argv[1])
found = []
for text in json.load(open(f"{sys.argv[1]}/texts.json")):
    cut = tokenizer(text, return_offsets_mapping=True)
    found.append([cut["input_ids"], cut["offset_mapping"]])
json.dump(found, open(f"{sys.argv[1]}/found.json", "w"))
"""


@needs_peer
def test_words_as_transformers_cuts_them(words):
    """transformers 5 reads no words, and is not asked."""
    probe = "import rjieba, transformers as t; assert t.__version__.startswith('4.')"
    if subprocess.run([peer_python(), "-c", probe], capture_output=True).returncode:
        pytest.skip("the other Python has no transformers 4 with rjieba")
    pytest.importorskip("rjieba")
    texts = [
        *TEXTS,
        *CUT,
        "北京大学的CEO，成立于1998年！U.S. GDP+3.5% 𠮷野家 한국어 русский " + "a" * 120,
    ]
    (words / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    tokenizer = load_tokenizer(settings_for(words), [])
    run_peer(TOKENS, words)
    found = json.loads((words / "found.json").read_text(encoding="utf-8"))
    for text, (ids, offsets) in zip(texts, found, strict=True):
        encoding = tokenizer.encode(text)
        assert encoding.ids == ids and [list(pair) for pair in encoding.offsets] == offsets, text


# ------------------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("bert", {"position_embedding_type": "relative_key"}),
        ("bert", {"is_decoder": True}),
        ("bert", {"add_cross_attention": True}),
        ("bert", {"pruned_heads": {"0": [1]}}),
        ("bert", {"hidden_act": "mish"}),
        ("bert", {"hidden_size": 33}),
        ("bert", {"hidden_size": "32"}),
        ("bert", {"layer_norm_eps": "small"}),
        ("bert", {"layer_norm_eps": -1.0}),
        ("bert", {"model_type": ["bert"]}),
        ("modernbert", {"norm_eps": True}),
        ("bert", {"vocab_size": None}),
        ("distilbert", {"activation": "mish"}),
        ("nezha", {"use_relative_position": False}),
        ("roformer", {"norm_type": "batch_norm"}),
        ("roformer_v2", {"use_bias": True}),
        ("deberta_v3", {"relative_attention": False}),
        ("deberta_v3", {"pos_att_type": "p2p|c2p"}),
        ("mpnet", {"relative_attention_num_buckets": 64}),
        ("mpnet", {"hidden_act": "relu"}),
        ("modernbert", {"mlp_bias": True}),
        ("modernbert", {"layer_types": ["full_attention"]}),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}),
    ],
)
def test_a_field_that_is_not_computed_is_refused(kind, fields, tmp_path):
    with pytest.raises(InputError) as caught:
        load(write_model(tmp_path, kind, **fields))
    [field] = {"activation": ["hidden_act"]}.get(*fields, list(fields))
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}") and field in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("bert", {"directionality": "bidi", "pooler_type": "first_token_transform"}),
        ("ernie", {"use_task_id": None, "task_type_vocab_size": 3, "output_past": True}),
        ("modernbert", {"layer_norm_eps": 1e-5, "position_embedding_type": "absolute"}),
        ("albert", {"net_structure_type": 0, "gap_size": 0, "down_scale_factor": 1}),
        ("deberta_v3", {"max_relative_positions": -1, "pos_att_type": "p2c|c2p"}),
    ],
)
def test_fields_of_published_files_are_known(kind, fields, tmp_path, capsys):
    load(write_model(tmp_path, kind, **fields))
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize("names", [[], "model.safetensors", {}])
def test_an_index_without_parts_is_refused(names, tmp_path):
    folder = write_model(tmp_path)
    (folder / "model.safetensors").unlink()
    index = json.dumps({"weight_map": names})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(InputError, match=r"index\.json names no parts: fetch it again"):
        load(folder)


@pytest.mark.parametrize("has_extra", [True, False])
def test_a_vocabulary_that_is_not_one_is_refused(has_extra, tmp_path, monkeypatch):
    folder = write_model(tmp_path)
    if not has_extra:
        without_encoders(monkeypatch)
    for content in (b"[PAD]\n[UNK]\na\n", b"[PAD]\n\xff\xfe\n"):
        (folder / "vocab.txt").write_bytes(content)
        with pytest.raises(InputError, match=r"vocab\.txt (can't be read|is not UTF-8)"):
            load_tokenizer(settings_for(folder), [])


def test_an_unknown_field_is_told(tmp_path, capsys):
    load(write_model(tmp_path, new_trick=True))
    assert f"warning: {tmp_path / 'config.json'}: new_trick not known" in capsys.readouterr().out


def test_positions_that_are_not_waves_are_refused(tmp_path):
    table = {"encoder.embed_positions.weight": np.ones((66, 8), "float32")}
    with pytest.raises(InputError, match=r"embed_positions\.weight holds other positions than"):
        load(write_model(tmp_path, "roformer", state=seeded_state("roformer") | table))


def test_tensors_that_are_missing_or_unread_are_named(tmp_path, capsys):
    load(write_model(tmp_path, num_hidden_layers=1))
    said = capsys.readouterr().out
    assert "not used by the encoder: encoder.layer.1.* (16 tensors)" in said
    with pytest.raises(InputError, match=r"lacks encoder\.layer\.2\.\* \(16 tensors\): it is not"):
        load(write_model(tmp_path, num_hidden_layers=3))
    state = seeded_state("bert")
    del state["embeddings.LayerNorm.bias"]
    with pytest.raises(InputError, match=r"lacks embeddings\.LayerNorm\.bias: it is not of"):
        load(write_model(tmp_path, state=state))


def test_weights_of_another_shape_or_not_finite_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"word_embeddings\.weight has the shape \[60, 32\], but"):
        load(write_model(tmp_path, vocab_size=61))
    state = seeded_state("bert")
    state["encoder.layer.1.output.dense.bias"][3] = np.nan
    with pytest.raises(InputError, match=r"layer\.1\.output\.dense\.bias holds numbers that are"):
        load(write_model(tmp_path, state=state))


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    folder = write_model(tmp_path)
    words = [f"word{number}" for number in range(61)]
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY[:5] + words), encoding="utf-8")
    with pytest.raises(InputError, match="the tokenizer has 66 tokens, the encoder 60: take both"):
        load(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": 3}', encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json can't be read"):
        load(folder)


def test_bert_stays_the_bert_of_core(tmp_path):
    """Tasks that need a BERT get one; max_length is checked as for every encoder."""
    encoder = load(write_model(tmp_path), dropout=0.25, attention_dropout=0.125)
    assert isinstance(encoder, BertEncoder) and encoder.layer_norm_epsilon == 1e-3
    assert encoder.dropout == 0.25 and encoder.attention_dropout == 0.125
    with pytest.raises(InputError, match=r"max_length = 67.*66 tokens"):
        load(tmp_path, max_length=67)


@pytest.mark.parametrize(
    ("kind", "longest"),
    [("xlm_roberta", 64), ("modernbert", 66), ("albert", 66), ("roformer_v2", 66)],
)
def test_windows_are_not_longer_than_what_an_encoder_reads(kind, longest, tmp_path):
    """Of XLM-R's positions two are never used: 514 stand in config.json for 512 tokens."""
    folder = write_model(tmp_path, kind)
    assert load(folder, max_length=longest).max_sequence_length == longest
    with pytest.raises(InputError, match=f"max_length = {longest + 1}.* reads {longest} tokens"):
        load(folder, max_length=longest + 1)


def test_memory_for_long_windows_is_said_before_it_fails(tmp_path, monkeypatch, capsys):
    """Of a pointer over windows of 8,192 tokens, and of attention."""
    encoder = load(write_model(tmp_path, "deberta_v3"))
    inputs = encoder_inputs(encoder)
    parts = EfficientGlobalPointer(40, 8)(hidden_states(encoder, inputs))
    model = keras.Model(inputs, parts)
    models, gibibyte = Models(model, model, encoder), 1 << 30
    settings = settings_for(tmp_path, max_length=8192, batch_size=8)
    pairs = 8 * 8192**2
    # 40 heads are many: the scores of one for each core.
    expected = pairs * 4 * (memory.AT_ONCE * memory.POINTER + 2 * 4 * memory.ATTENTION)
    assert memory.pair_memory(settings, models) == expected
    halved = settings.model_copy(update={"accumulation": 2})
    assert memory.pair_memory(halved, models) == expected // 2
    monkeypatch.setattr(memory, "free_memory", lambda: 40 * gibibyte)
    memory.warn_of_memory(settings, models)
    said = f"need {expected / gibibyte:.1f} GiB a step"
    assert said in capsys.readouterr().out
    memory.warn_of_memory(settings_for(tmp_path, max_length=128, batch_size=8), models)
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    memory.warn_of_memory(settings, models)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["nezha", "deberta_v3"])
def test_distances_have_no_end(kind, tmp_path):
    assert load(write_model(tmp_path, kind), max_length=5000).max_sequence_length is None


# ------------------------------------------------------------------------ back to transformers

# Loads a folder, and writes what it makes of what ours has read: python -c STATES FOLDER ...
STATES = """
import sys
import numpy, torch, transformers
for folder in sys.argv[1:]:
    read = dict(numpy.load(f"{folder}/read.npz"))
    loaded = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        inputs = {name: torch.tensor(array) for name, array in read.items()}
        hidden = loaded(**inputs).last_hidden_state.numpy()
    numpy.save(f"{folder}/states.npy", hidden)
"""
# RoFormerV2 is no part of transformers, NEZHA left it.
NOT_IN_TRANSFORMERS = ("roformer_v2", "nezha")


def write_back(folder: Path, encoder: keras.Model) -> Path:
    """Write an encoder as export.py does."""
    folder.mkdir()
    config, tensors = naming.describe_encoder(encoder)
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0, **config}))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.shown("[bert]", "[albert]", "deberta_v3", "modernbert", "[roformer]")
@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_an_encoder_that_was_written_back_is_the_same(kind, tmp_path, capsys):
    encoder, read = load(write_model(tmp_path / "one", kind)), encoder_peer.arrays(kind)
    again = load(write_back(tmp_path / "two", encoder))
    said = capsys.readouterr().out.partition("two")[2]
    assert "warning" not in said and "not used" not in said
    np.testing.assert_allclose(states(again, read), states(encoder, read), atol=1e-5)


@needs_peer
def test_transformers_computes_what_was_written_back(tmp_path):
    folders, expected = [], {}
    for kind in KINDS:
        if kind in NOT_IN_TRANSFORMERS:
            continue
        encoder, read = load(write_model(tmp_path / kind, kind)), encoder_peer.arrays(kind)
        folder = write_back(tmp_path / f"{kind}_back", encoder)
        inputs = {name: array for name, array in read.items() if name != "cotangent"}
        if not any(tensor.name == "segment_ids" for tensor in encoder.inputs):
            inputs.pop("token_type_ids", None)
        np.savez(folder / "read.npz", **inputs)
        folders.append(folder)
        expected[folder] = np.asarray(states(encoder, read)), read["attention_mask"] > 0
    run_peer(STATES, *folders)
    for folder, (hidden, mask) in expected.items():
        found = np.load(folder / "states.npy")
        largest = np.abs(found - hidden)[mask].max()
        print(f"{folder.name}: {largest:.1e}")
        assert largest < (1e-4 if "modernbert" in folder.name else 1e-5), folder.name


# --------------------------------------------------------------------- a project without it


@pytest.fixture
def core_alone(monkeypatch) -> None:
    without_encoders(monkeypatch)


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_norm_eps": 1e-5},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"hidden_act": "relu"},
        {"model_type": "roberta"},
        {"model_type": "albert"},
    ],
)
def test_core_refuses_what_it_would_load_wrong(fields, core_alone, tmp_path):
    with pytest.raises(InputError) as caught:
        load(write_model(tmp_path, **{"layer_norm_eps": 1e-12, **fields}))
    [(field, value)] = fields.items()
    assert f"{field} = {value!r}" in str(caught.value)
    assert "or add it with `baselines add encoders --to" in str(caught.value)


def write_plain(folder: Path, changes=None, **fields) -> Path:
    """Make a folder that core reads: changes are of the weights, None takes one away."""
    state = {**seeded_state("bert"), **(changes or {})}
    state = {name: value for name, value in state.items() if value is not None}
    state[SEGMENTS] = state[SEGMENTS][:2]
    plain = {"layer_norm_eps": 1e-12, "type_vocab_size": 2}
    return write_model(folder, state=state, **{**plain, **fields})


def test_core_refuses_weights_that_it_would_not_read(core_alone, tmp_path):
    load(write_plain(tmp_path))
    with pytest.raises(InputError, match=r"safetensors has more layers than config\.json names"):
        load(write_plain(tmp_path, num_hidden_layers=1))
    name = "encoder.layer.1.output.dense.bias"
    with pytest.raises(InputError, match="its weights are not all finite: fetch it again"):
        load(write_plain(tmp_path, {name: np.full(32, np.nan, "float32")}))
    with pytest.raises(InputError, match=r"can't be loaded \(.*LayerNorm"):
        load(write_plain(tmp_path, {"embeddings.LayerNorm.bias": None}))
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"can't be loaded"):
        load(tmp_path)


def test_core_refuses_a_tokenizer_that_does_not_fit(core_alone, tmp_path):
    folder = write_plain(tmp_path)
    words = [*VOCABULARY, *map(str, range(20))]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    with pytest.raises(InputError, match="the tokenizer has 77 tokens, the encoder 60: take both"):
        load(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": 3}', encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json can't be read"):
        load(folder)


def test_a_run_whose_encoder_is_gone_gets_a_sentence(core_alone, tmp_path):
    tokenizer = load_tokenizer(settings_for("tiny"), TEXTS, list)
    save_encoder(tmp_path, load_encoder(settings_for("tiny"), tokenizer), tokenizer)
    path = tmp_path / "encoder.json"
    text = path.read_text(encoding="utf-8").replace("core.encoders.encoder", "extras.gone.encoder")
    path.write_text(text.replace("BertEncoder", "GoneEncoder"), encoding="utf-8")
    with pytest.raises(
        InputError, match="its encoder, GoneEncoder, is not in this project: .*or add"
    ):
        restore_encoder(tmp_path)


def test_core_names_the_extra_for_other_families_and_files(core_alone, tmp_path):
    write_model(tmp_path, "deberta_v3")
    with pytest.raises(InputError, match="add it with `baselines add encoders --to"):
        load(tmp_path)
    write_model(tmp_path, layer_norm_eps=1e-12)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="add it with `baselines add encoders --to"):
        load(tmp_path)
    (tmp_path / "config.json").rename(tmp_path / "bert_config.json")
    assert local_folder(str(tmp_path)) is None


def test_an_export_of_a_tokenizer_that_pads_names_its_end():
    """As the files of sentence-transformers do: the last token of an empty text is [PAD]."""
    tokenizer = train_tokenizer(["one two three"] * 3, 60)
    tokenizer.enable_padding(length=16)
    _, config, _ = naming.describe_tokenizer(tokenizer, None)
    assert (config["cls_token"], config["sep_token"]) == ("[CLS]", "[SEP]")
