"""Text classification by decoder-only models, of the extra `writers`: what is read, and of what.

The logits of transformers stand in tests/tasks/seq2seq/writer_numbers.json, see tests/writer_peer.py.
"""

import json
import re
import signal
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import writer_peer
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from projects import bake_project, flags, run, shorten
from tokenizers import (
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
)
from writer_peer import CLASSES, CLASSIFIERS, LENGTHS

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.model.encoder import load_encoder, load_tokenizer  # noqa: E402
from extras.optimizers.toolbox import freeze_layers  # noqa: E402
from extras.tpu.hooks import find_dynamic_shapes  # noqa: E402
from extras.writers.decoder import PromptWriter  # noqa: E402
from task.data import Example, ExampleGenerator, Labels, collect_labels  # noqa: E402
from task.model import build_models  # noqa: E402
from task.settings import Settings  # noqa: E402

NUMBERS = json.loads((ROOT / "tests/tasks/seq2seq/writer_numbers.json").read_text("utf-8"))
WORKER = ROOT / "tests" / "replica_worker.py"


def make_settings(folder: Path | str, **changes) -> Settings:
    plain = {"encoder": str(folder), "max_length": 16, "dropout": 0.0}
    return with_tables(Settings)(**{**plain, **changes})


def make_labels(pairs: bool = False, several: bool = False) -> Labels:
    names = ("a", "b", "c")
    return Labels(names, several, None, (1, 1, 1), 3, pairs)


def build(folder: Path, labels: Labels | None = None, **changes):
    """Return the models of a classifier on the decoder of a folder."""
    settings = make_settings(folder, **changes)
    vocabulary = Tokenizer(models.WordLevel({"a": 0}))
    return build_models(load_encoder(settings, vocabulary), labels or make_labels(), settings)


def write_folder(folder: Path, kind: str, **fields) -> Path:
    return writer_peer.write_folder(folder, NUMBERS[kind], **fields)


def read_batch(kind: str, moved=np.asarray) -> dict[str, np.ndarray]:
    """Return texts of different lengths, padded on the right, or as `moved` has it."""
    read = writer_peer.arrays(kind)
    arrays = {"token_ids": moved(read["ids"]), "padding_mask": moved(read["mask"])}
    return {name: array.astype(np.int32) for name, array in arrays.items()}


def pooled(models_) -> keras.Model:
    """Return the model that ends before the logits."""
    inference = models_.inference
    return keras.Model(inference.inputs, inference.get_layer("mean").output)


# -------------------------------------------------------------------- what is read


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma3", "smollm3"])
def test_the_last_token_is_what_a_writer_goes_on_from(kind, tmp_path):
    """Its hidden state gives the logits of the next token, wherever padding stands, or none."""
    built = build(write_folder(tmp_path / kind, kind))
    decoder, reader = built.encoder, pooled(built)
    writer = PromptWriter(decoder)
    target = np.zeros((len(LENGTHS), 1), np.int32)
    for moved in (np.asarray, writer_peer.left):
        batch = read_batch(kind, moved)
        found = decoder.score(reader(batch))
        wanted = writer(**batch, target_ids=target)[:, 0]
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    batch = read_batch(kind)
    for row, length in enumerate(LENGTHS):  # by itself, without padding
        alone = {name: array[row : row + 1, :length] for name, array in batch.items()}
        np.testing.assert_allclose(decoder.score(reader(alone))[0], found[row], atol=1e-5)
        wanted = writer(**alone, target_ids=target[:1])[0, 0]
        np.testing.assert_allclose(found[row], wanted, atol=1e-5)


def test_a_mean_is_of_real_tokens(tmp_path):
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    built, batch = build(folder, pooling="mean"), read_batch("gpt2")
    hidden = np.asarray(built.encoder(batch))
    expected = [states[:n].mean(axis=0) for states, n in zip(hidden, LENGTHS, strict=True)]
    np.testing.assert_allclose(pooled(built)(batch), expected, atol=1e-5)


def classify(folder: Path, kind: str) -> np.ndarray:
    """Return logits with the head that transformers has."""
    built = build(folder)
    layer = built.inference.get_layer("logits")
    name = f"score.weight"
    head = writer_peer.seeded(name, (CLASSES, NUMBERS[kind]["config"].get("n_embd", 32)))
    layer.kernel.assign(head.T)
    logits = keras.Model(built.inference.inputs, layer.output)
    return np.asarray(logits(read_batch(kind)))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_logits_are_those_of_transformers(kind, tmp_path):
    found = classify(write_folder(tmp_path / kind, kind), kind)
    np.testing.assert_allclose(found, NUMBERS[kind]["classes"], atol=1e-4)


@needs_peer
def test_logits_are_those_of_the_transformers_at_hand(tmp_path):
    run_peer(Path(writer_peer.__file__).read_text(encoding="utf-8"), tmp_path)
    for kind in CLASSIFIERS:
        expected = np.load(tmp_path / kind / "peer.npz")["classes"]
        np.testing.assert_allclose(classify(tmp_path / kind, kind), expected, atol=1e-4)
