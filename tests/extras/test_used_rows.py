"""Rows of tokens that no training text has are not trained: the same weights as with all rows."""

import json
import re
import signal
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT
from encoder_peer import seeded
from projects import HAS_ORBIT, bake_project, flags, run, shorten
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file
from small_models import (
    LABELS,
    CrossEntropy,
    Examples,
    assert_equal,
    bert_encoder,
    compile_models,
    make_settings,
)

from core.base.errors import InputError
from core.runs.checkpoints import restore_checkpoint, save_checkpoint
from core.runs.run import Run
from core.step import Models, TrainingModel
from extras.averaging.averaging import Soup, averaged_weights
from extras.used_rows import used_rows
from extras.used_rows.used_rows import train_used_rows

TOKENS, STEPS = 60, 12  # the examples have tokens below 20
WORKER = ROOT / "tests" / "replica_worker.py"


class Texts(Examples):
    """Random tokens, with what else a BERT reads."""

    def make_batch(self, examples, length):
        batch = super().make_batch(examples, length)
        ids = batch["token_ids"]
        return {**batch, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}


def build(settings, rows: bool) -> tuple[Models, Texts]:
    """Return models, compiled, with all rows of the embedding or the used ones, and batches."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    encoder = bert_encoder(vocabulary_size=TOKENS, num_layers=1, dropout=0.2)
    texts = Texts()
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    hidden = encoder(inputs)["sequence_output"][:, 0]
    logits = keras.layers.Dense(LABELS, name="logits")(hidden)
    labels = keras.Input((), dtype="int32", name="labels")
    loss = CrossEntropy(name="label_loss")(logits, labels)
    training = TrainingModel({**inputs, "labels": labels}, {"label_loss": loss})
    models = Models(training, keras.Model(inputs, {"logits": logits}), encoder)
    if rows:
        train_used_rows(models, texts)
    compile_models(settings, models, STEPS)
    return models, texts


def saved(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file of weights."""
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


def difference(one: dict, other: dict) -> float:
    assert one.keys() == other.keys() and one
    return max(np.abs(one[name] - other[name]).max() for name in one)


ALL_TOKENS = np.arange(TOKENS).reshape(6, 10)
# An optimizer and others at once: tracing costs more than all steps.
WAYS = {
    "lion": {"optimizers": {"kind": "lion", "lazy_embeddings": True, "lookahead": 5}},
    "muon": {
        "optimizers": {"kind": "muon", "layer_decay": 0.5, "lookahead": 4, "no_decay": "bias"},
        "averaging": {"ema": 0.8},
        "regularization": {"adversary": "fgm"},
    },
}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("way", WAYS)
def test_weights_and_predictions_are_those_of_all_rows(way, tmp_path):
    settings = make_settings(
        weight_decay=0.1, clip_norm=0.1, learning_rate=5e-3, head_learning_rate=1e-2, **WAYS[way]
    )
    found = []
    for rows in (False, True):
        models, texts = build(settings, rows)
        batches = iter(texts.to_dataset())
        step = tf.function(models.training.train_step)
        for _ in range(STEPS):
            step(next(batches))
        with averaged_weights(models.training):
            models.inference.save_weights(tmp_path / "weights.weights.h5")
            ones = np.ones_like(ALL_TOKENS)
            read = {"token_ids": ALL_TOKENS, "segment_ids": 0 * ones, "padding_mask": ones}
            logits = models.inference(read)["logits"]
        found.append({**saved(tmp_path / "weights.weights.h5"), "logits": np.asarray(logits)})
        table = models.encoder.token_embedding.embeddings
        assert table.shape[0] == (20 if rows else TOKENS)
        moments = [v.shape[0] for v in models.training.optimizer.variables if len(v.shape) == 2]
        assert (TOKENS in moments) != rows
    largest = difference(*found)
    print(f"{way}: largest difference {largest:.1e}")
    assert largest < 1e-6
    # The rows that are not trained have moved too, unless they wait.
    start, _ = build(settings, rows=False)
    start = np.asarray(start.encoder.token_embedding.embeddings)
    [end] = [array for array in found[1].values() if array.shape == start.shape]
    assert (np.abs(end - start)[20:].max() > 1e-5) == (way != "lion")


@pytest.mark.trains
def test_a_file_of_weights_goes_round_and_a_soup_is_the_mean(tmp_path):
    models, _ = build(make_settings(), rows=True)
    table = models.encoder.token_embedding
    soup, tables = Soup(tmp_path, 2), []
    for step, factor in enumerate((0.9, 0.7)):
        table.factor.assign([[factor]])
        table.embeddings.assign(table.embeddings * factor)
        tables.append(table.whole_table())
        soup.add(models.inference, step, float(step))
        models.inference.load_weights(tmp_path / f"{step:08}.weights.h5")
        assert float(table.factor[0, 0]) == pytest.approx(factor, rel=1e-7)
        np.testing.assert_allclose(table.whole_table(), tables[-1], rtol=2e-7)
    assert soup.average(models.inference) == [0, 1]
    np.testing.assert_allclose(table.whole_table(), np.mean(tables, axis=0), atol=1e-7)


def test_other_files_of_the_encoder_are_noticed(tmp_path):
    models, _ = build(make_settings(), rows=True)
    run = Run(tmp_path)
    save_checkpoint(run.folder, run.position, models.training)
    models.encoder.token_embedding.others.assign_add(
        tf.ones_like(models.encoder.token_embedding.others)
    )
    restore_checkpoint(run.folder, run.position, models.training)
    with pytest.raises(InputError, match="restore its files"):
        models.inference.save_weights(tmp_path / "best.weights.h5")


def test_a_checkpoint_has_no_other_rows(tmp_path):
    sizes = []
    for rows in (False, True):
        models, _ = build(make_settings(), rows)
        save_checkpoint(tmp_path, Run(tmp_path).position, models.training)
        with np.load(tmp_path / "checkpoint.npz") as arrays:
            sizes.append(sum(arrays[name].size for name in arrays if name.isdigit()))
    assert sizes[0] - sizes[1] == 3 * 8 * (TOKENS - 20) - 4  # the factor, its moments, the origin


def test_new_tokens_of_a_later_epoch_are_refused():
    _, texts = build(make_settings(), rows=True)
    texts.tokens[:, 0] = TOKENS - 1
    with pytest.raises(InputError, match="Texts draws tokens that the first epoch does not have"):
        list(texts.batches(1))


@pytest.mark.parametrize(
    ("tables", "mend"),
    [
        ({"optimizers": {"kind": "lamb"}}, "optimizers.kind = adamw"),
        ({"optimizers": {"kind": "adafactor"}}, "optimizers.kind = adamw"),
        ({"regularization": {"virtual_adversary": 1.0}}, "virtual_adversary = 0"),
        ({"strategy": "parameter_server"}, "another strategy"),
    ],
)
def test_what_needs_the_whole_table_is_refused(tables, mend):
    make_settings(**tables)
    with pytest.raises(ValidationError, match=f"set used_rows.enabled = false, or {mend}"):
        make_settings(used_rows={"enabled": True}, **tables)


@keras.saving.register_keras_serializable("tests")
class Scorer(keras.layers.Layer):
    """Scores tokens by the table that it reads them from, as a language model does."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def call(self, inputs):
        hidden = self.encoder(inputs)["sequence_output"]
        return self.encoder.token_embedding(hidden, reverse=True)


@pytest.mark.parametrize("kind", ["tied", "tied beside", "no table", "masked"])
def test_models_that_read_the_whole_table_are_refused(kind):
    encoder = bert_encoder(vocabulary_size=TOKENS, num_layers=1)
    read = encoder.input if kind == "masked" else dict(encoder.input)
    outputs = Scorer(encoder)(read) if kind.startswith("tied") else encoder(read)["pooled_output"]
    if kind == "tied beside":
        outputs = [outputs, encoder(read)["pooled_output"]]
    if kind == "no table":
        encoder.token_embedding = keras.layers.Embedding(TOKENS, 8)
    if kind == "masked":
        encoder.token_embedding.mask_zero = True
    model = TrainingModel(read, outputs)
    with pytest.raises(InputError, match="set used_rows.enabled = false"):
        train_used_rows(Models(model, model, encoder), Texts())


def test_a_table_whose_rows_are_all_used_stays(monkeypatch, capsys):
    encoder = bert_encoder(vocabulary_size=20, num_layers=1)
    outputs = encoder(encoder.input)["pooled_output"]
    model = TrainingModel(encoder.input, outputs)
    monkeypatch.setattr(used_rows, "find_used", lambda batches, tokens: np.ones(tokens, bool))
    kind = type(encoder.token_embedding)
    train_used_rows(Models(model, model, encoder), Texts())
    assert type(encoder.token_embedding) is kind
    assert "20 of 20 rows" in capsys.readouterr().out


# ------------------------------------------------------------------------- in a project


RECORDS, BATCH = 119, 4  # 30 steps; the last batch has three examples
SETTINGS = {
    "encoder": "encoder",
    "epochs": 1,
    "batch_size": BATCH,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "buckets": 1,
    "clip_norm": 0.5,
    "weight_decay": 0.1,
    "averaging.ema": 0.5,
    "checkpoint_steps": 8,
}
REPLICAS = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}
USED = {"used_rows.enabled": True}
TABLE, MASK = "embeddings.word_embeddings.weight", 4


def write_encoder(folder: Path, sample: Path) -> None:
    """Write a BERT with random weights, whose tokens are all words of the sample, and letters."""
    numbers = (ROOT / "tests/extras/encoder_numbers.json").read_text(encoding="utf-8")
    bert = json.loads(numbers)["bert"]
    texts = "".join(file.read_text(encoding="utf-8") for file in sample.glob("*.jsonl"))
    pieces = [f"{mark}{letter}" for mark in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
    words = sorted(set(re.findall(r"[a-z]{2,}", texts.lower())))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *words]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    changes = {"num_hidden_layers": 1, "layer_norm_eps": 1e-12, "type_vocab_size": 2}
    config = {**bert["config"], **changes, "vocab_size": len(tokens)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tables = {"word_embeddings": [len(tokens), 32], "token_type_embeddings": [2, 32]}
    shapes = bert["shapes"] | {f"embeddings.{name}.weight": size for name, size in tables.items()}
    shapes = {name: tuple(shape) for name, shape in shapes.items() if "layer.1." not in name}
    weights = {name: seeded(name, shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    project = bake_project("relation_extraction", folder, "used_rows, averaging, folds, orbit")
    write_encoder(project / "encoder", project / "sample")
    shorten(project, {"train": RECORDS, "dev": 12, "test": 40})
    return project


def train(project: Path, name: str, **settings) -> str:
    """Train; return what was printed."""
    asked = flags(project, run_name=name, **{**SETTINGS, **settings})
    return run("train.py", *asked, cwd=project).stdout


@pytest.fixture(scope="module")
def dense(project) -> dict[str, np.ndarray]:
    """The best weights of a run that trains all rows."""
    train(project, "dense")
    return best(project, "dense")


@pytest.fixture(scope="module")
def lean(project) -> str:
    """What a run has printed that trains the used rows."""
    return train(project, "lean", **USED)


def best(project: Path, name: str) -> dict[str, np.ndarray]:
    return saved(project / "runs" / name / "best.weights.h5")


def assert_near(one: dict, other: dict) -> None:
    largest = difference(one, other)
    print(f"largest difference {largest:.1e}")
    assert largest < 1e-6


def predict(project: Path, name: str) -> list[list]:
    """Return the triples of each record, however unsure, of texts with all words of the encoder."""
    words = (project / "encoder" / "vocab.txt").read_text(encoding="utf-8").split()[57:]
    every = len(words) // 8
    texts = [" ".join(words[first::every]) for first in range(every)]
    lines = [json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)]
    (project / "unseen.jsonl").write_text("".join(lines), encoding="utf-8")
    path = project / "runs" / name / "scores.json"
    scores = json.loads(path.read_text(encoding="utf-8"))
    scores["dev"]["threshold"] = 1e-9
    path.write_text(json.dumps(scores), encoding="utf-8")
    run("predict.py", name, "unseen.jsonl", "found.jsonl", cwd=project)
    found = (project / "found.jsonl").read_text(encoding="utf-8").splitlines()
    keys = ("subject", "predicate", "object")
    return [[[t[key] for key in keys] for t in json.loads(line)["triples"]] for line in found]


@pytest.mark.further
@pytest.mark.trains
def test_the_best_weights_are_those_of_all_rows(project, dense, lean):
    used, rows = map(int, re.search(r"used_rows: (\d+) of (\d+) rows", lean).groups())
    assert used < 0.9 * rows
    assert_near(dense, best(project, "lean"))
    scores = [(project / "runs" / name / "scores.json").read_text() for name in ("dense", "lean")]
    dense_scores, lean_scores = (json.loads(one)["dev"] for one in scores)
    # Thresholds of four digits may be rounded to neighbours where weights differ by 1e-7.
    curves = [one.pop("precision_recall") for one in (dense_scores, lean_scores)]
    np.testing.assert_allclose(*curves, rtol=0, atol=1.01e-4)
    assert dense_scores == lean_scores


@pytest.mark.further
@pytest.mark.trains
def test_tokens_that_were_never_seen_are_predicted_without_the_extra(project, dense, lean):
    expected = predict(project, "dense")
    assert sum(map(len, expected)) > 100
    config = (project / "config.toml").read_text(encoding="utf-8")
    (project / "extras" / "used_rows").rename(project / "away")
    without = re.sub(r"\[used_rows\]\n.*\n", "", config)
    (project / "config.toml").write_text(without, encoding="utf-8")
    try:
        assert predict(project, "lean") == expected
    finally:
        (project / "away").rename(project / "extras" / "used_rows")
        (project / "config.toml").write_text(config, encoding="utf-8")


@pytest.mark.further
@pytest.mark.trains
def test_two_replicas_micro_batches_and_orbit(project, lean):
    train(project, "dense_replicas", **REPLICAS)
    orbit = {"orbit.enabled": True, "orbit.steps_per_loop": 7} if HAS_ORBIT else {}
    train(project, "lean_replicas", **REPLICAS, **USED, **orbit)
    assert_near(best(project, "dense_replicas"), best(project, "lean_replicas"))
    assert difference(best(project, "lean_replicas"), best(project, "lean")) < 1e-5


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_last_bit(project, lean, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 20}), encoding="utf-8")
    asked = flags(project, run_name="killed", **SETTINGS, **USED)
    result = run(WORKER, project, plan, *asked, cwd=tmp_path, check=False)
    assert result.returncode == -signal.SIGKILL, f"{result.stdout}\n{result.stderr}"
    train(project, "killed", **USED)
    expected, found = best(project, "lean"), best(project, "killed")
    assert_equal(expected.values(), found.values())


@pytest.mark.further
@pytest.mark.trains
def test_the_model_of_each_fold_has_all_rows(project):
    changes = {**SETTINGS, "folds.count": 2, "steps": 4, "averaging.ema": 0.0, **USED}
    asked = flags(project, run_name="folds", **changes)
    said = run("extras/folds/cross_validate.py", *asked, cwd=project).stdout
    counts = list(map(int, re.findall(r"used_rows: (\d+) of", said)))
    start = load_file(project / "encoder" / "model.safetensors")[TABLE]
    assert len(counts) == 2
    for number, used in enumerate(counts, start=1):
        arrays = best(project, f"folds/fold_{number}").values()
        [end] = [array for array in arrays if array.shape == start.shape]
        # What the rows have in common that are not of this fold: [MASK] is of none.
        factor = np.median(end[MASK] / start[MASK])
        assert 0.999 < factor < 1 - 1e-6
        decayed = np.abs(end - start * factor).max(axis=1) < 1e-6
        # So do rows of texts that come after these steps.
        assert len(start) - used <= decayed.sum() < len(start)
