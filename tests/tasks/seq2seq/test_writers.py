"""The extra `writers`: families against transformers, generation, prompts, what it refuses.

What transformers computes stands in writer_numbers.json, written by tests/writer_peer.py. Where a
Python has torch and transformers, see tests/peer.py, every number is compared.
"""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import writer_peer
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from safetensors.numpy import save_file
from writer_peer import BEAMS, LENGTHS, TARGET

PROJECT = use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from extras.writers import hooks  # noqa: E402
from generation.search import Writer  # noqa: E402
from generation.settings import GenerationTable, TargetTokens  # noqa: E402
from task.model import build_models, writing_layers  # noqa: E402
from task.settings import Settings  # noqa: E402

NUMBERS = json.loads(
    (ROOT / "tests/tasks/seq2seq/writer_numbers.json").read_text(encoding="utf-8")
)


def make_settings(folder: Path, **changes) -> Settings:
    values = {
        "model": "pretrained",
        "encoder": str(folder),
        "max_length": 12,
        "target_length": TARGET,
        "dropout": 0.0,
        "label_smoothing": 0.0,
    }
    return with_tables(Settings)(**{**values, **changes})


def write_folder(folder: Path, kind: str, leave_out: str = "", **fields) -> Path:
    """Make a folder with config.json and model.safetensors, as transformers did."""
    folder.mkdir(exist_ok=True)
    config = {**NUMBERS[kind]["config"], **fields}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    state = {
        name: writer_peer.seeded(name, tuple(shape))
        for name, shape in NUMBERS[kind]["shapes"].items()
        if name != leave_out
    }
    save_file(state, folder / "model.safetensors")
    return folder


def load(folder: Path, **changes) -> keras.Model:
    return hooks.load_backbone(make_settings(folder, **changes), folder)


def read_batch(kind: str, padding: str = "right") -> dict:
    """Return sources as a batch, and `target_ids`."""
    read = writer_peer.arrays(kind)
    moved = writer_peer.left if padding == "left" else np.asarray
    target = np.pad(read["target"][:, :-1], ((0, 0), (1, 0)))
    config = NUMBERS[kind]["config"]
    target[:, 0] = config["bos_token_id"] if kind == "bart" else 0
    arrays = {"token_ids": moved(read["ids"]), "padding_mask": moved(read["mask"])}
    return {k: tf.constant(v, "int32") for k, v in {**arrays, "target_ids": target}.items()}


def target_tokens(kind: str, encoder: keras.Model) -> TargetTokens:
    begin, end = encoder.frame
    return TargetTokens(begin, end, (), tuple(encoder.other_ends))


def generate(kind: str, encoder: keras.Model, settings: Settings, **table) -> dict:
    """Return what is written for the sources, padded on the right."""
    model = build_models(encoder, settings).inference
    tokens = target_tokens(kind, encoder)
    writer = Writer([model], writing_layers, tokens, GenerationTable(**table), TARGET)
    batch = read_batch(kind)
    del batch["target_ids"]
    draws = tf.zeros((len(LENGTHS), TARGET))
    return {name: array.numpy() for name, array in writer({**batch, "draws": draws}).items()}


@pytest.mark.parametrize("kind", NUMBERS)
def test_logits_and_texts_are_those_of_transformers(kind, tmp_path, capsys):
    folder = write_folder(tmp_path / kind, kind)
    settings, expected = make_settings(folder), NUMBERS[kind]
    encoder = load(folder)
    assert "warning" not in capsys.readouterr().out
    model = build_models(encoder, settings).inference
    for padding in ("right", "left"):
        logits = model(read_batch(kind, padding))["logits"].numpy()
        np.testing.assert_allclose(writer_peer.summary(logits), expected["logits"], atol=1e-5)
    check_texts(kind, encoder, settings, expected["greedy"], expected["scores"])


def check_texts(kind, encoder, settings, greedy, scores) -> None:
    """Compare greedy texts token for token, and the scores of a search, with a cache or without."""
    power = 0.0 if kind == "bart" else 1.0
    for cache in (True, False):
        written = generate(kind, encoder, settings, beams=1, cache=cache)["tokens"]
        ended = np.cumsum(np.isin(written, encoder.ends), axis=1)
        written = np.where(ended - np.isin(written, encoder.ends) > 0, 0, written)
        wanted = np.pad(greedy, ((0, 0), (0, TARGET - np.shape(greedy)[1])))
        ended = np.cumsum(np.isin(wanted, encoder.ends), axis=1)
        wanted = np.where(ended - np.isin(wanted, encoder.ends) > 0, 0, wanted)
        np.testing.assert_array_equal(written, wanted)
        options = {"beams": BEAMS, "n_best": BEAMS, "length_power": power, "cache": cache}
        found = generate(kind, encoder, settings, **options)["scores"]
        np.testing.assert_allclose(found.ravel(), scores, atol=1e-4)
