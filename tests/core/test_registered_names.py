"""The names under which models are saved stay: runs of earlier versions still load."""

import ast
import json

import keras
import numpy as np
import pytest
from conftest import ROOT
from projects import TEMPLATES
from small_models import bert_encoder

from core.base.settings import RecordSettings
from core.model.encoder import load_tokenizer, restore_encoder, save_encoder

PROJECT = "{{cookiecutter.project_slug}}"
# What runs of the first version may hold.
SHARED = """
Adafactor AdamW BertEncoder EfficientGlobalPointer GlobalPointer Lamb LayerNormalization Lion
MeanLoss Muon RotaryPositionEmbedding SelfAttention SparseMultilabelLoss TokenLoss TrainingModel
TransformerLayer WarmUpThenDecay exact_gelu_function tanh_gelu_function
""".split()
OF_TASKS = {
    "event_extraction": {"CrfLoss", "TagTransitions"},
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
    own = ROOT / "templates" / template / PROJECT / "task"
    names = registered_names(own, ROOT / "templates/core")
    assert {f"task>{name}" for name in OF_TASKS[template]} <= names


def test_an_encoder_of_an_earlier_version_is_restored(tmp_path):
    """Its file names the module that it stood in then."""
    encoder = bert_encoder()
    tokenizer = load_tokenizer(RecordSettings.model_construct(encoder="tiny"), ["a b c"])
    save_encoder(tmp_path, encoder, tokenizer)
    path = tmp_path / "encoder.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["registered_name"] == "common>BertEncoder"
    text = path.read_text(encoding="utf-8").replace("core.model.encoder", "common.encoder")
    path.write_text(text.replace("core.model.transformer", "common.fused_layers"), encoding="utf-8")
    restored, _ = restore_encoder(tmp_path)
    assert type(restored) is type(encoder)
    restored.set_weights(encoder.get_weights())
    inputs = {name: keras.ops.ones((1, 4), "int32") for name in encoder.input}
    one, other = (model(inputs)["sequence_output"] for model in (encoder, restored))
    np.testing.assert_array_equal(one, other)
