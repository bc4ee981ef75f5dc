"""Text generation from n-best texts with weights: how they are read, their loss, trainings."""

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT, use_template
from projects import bake_project, flags, run, shorten
from run_weights import largest_difference

use_template("seq2seq")

import keras  # noqa: E402

from core.base.errors import InputError  # noqa: E402
from core.layers.language_model import TokenLoss  # noqa: E402
from extras.distillation.pseudo_labels import label_record  # noqa: E402
from extras.distillation.soft_texts import weigh_texts  # noqa: E402
from generation.settings import TargetTokens  # noqa: E402
from task.data import PairGenerator  # noqa: E402
from task.records import read_examples  # noqa: E402

WORKER = ROOT / "tests/replica_worker.py"


def write(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def soft(targets: dict, **more) -> dict:
    return {"id": 1, "source": "a b", "targets": targets, **more}


def test_weights_are_read_and_the_best_text_is_first(tmp_path, capsys):
    """No text is called a field that is not read."""
    path = write(tmp_path / "x.jsonl", [soft({"c": 0.25, "d": 2, "e": 0})])
    [example] = read_examples(path)
    assert example.targets == ("d", "c") and example.shares == (2.0, 0.25)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ({"c": -0.1, "d": 1}, "each text a weight from 0 on, and one text more than 0"),
        ({"c": float("nan")}, "each text a weight from 0 on"),
        ({"c": 10**400}, "each text a weight from 0 on"),
        ({"c": True}, "each text a weight from 0 on"),
        ({"c": "1"}, "each text a weight from 0 on"),
        ({"c": 0, "d": 0.0}, "and one text more than 0"),
        ({}, "and one text more than 0"),
        ({" ": 1.0}, "holds an empty text"),
    ],
)
def test_bad_weights_are_one_sentence_with_the_line(targets, words, tmp_path):
    records = [soft({"c": 1.0}), {**soft(targets), "id": 2}]
    with pytest.raises(InputError) as error:
        [*read_examples(write(tmp_path / "x.jsonl", records))]
    assert words in str(error.value) and "line 2" in str(error.value)


class Words:
    """A tokenizer whose tokens are letters."""

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def encode(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(ids=[1, 2])

    def encode_batch(self, texts: list[str], add_special_tokens: bool) -> list:
        return [SimpleNamespace(ids=[ord(one) - 90 for one in text.split()]) for text in texts]


def test_the_loss_is_that_of_the_formula(tmp_path):
    """Of all texts: weight of the record x weight of the text x -log p / tokens of the batch."""
    records = [
        soft({"c d": 0.7, "e": 0.2}, weight=3.0),
        {**soft({}), "id": 2, "targets": ["f g h"]},
    ]
    examples = read_examples(write(tmp_path / "x.jsonl", records))
    names = ["token_ids", "segment_ids", "padding_mask"]
    settings = SimpleNamespace(model="unilm", max_length=8, target_length=6, buckets=1, seed=1)
    encoding = (TargetTokens(1, 2, ()), Words(), names, settings, 4)
    batches = PairGenerator.of(examples, *encoding)
    np.testing.assert_allclose(batches.weights, [3 * 0.7, 3 * 0.2, 1.0], rtol=1e-6)
    [batch] = batches.batches(0)
    labels, draw = batch["target_labels"], np.random.default_rng(1)
    logits = draw.normal(size=(*labels.shape, 20))
    found = TokenLoss()(logits.astype("float32"), labels)
    found = float(keras.ops.sum(found * batch["loss_weight"]))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    # Three tokens, two and four, each with its end.
    weights = {3: 3 * 0.7, 2: 3 * 0.2, 4: 1.0}
    wanted = 0.0
    for row, own, weight in zip(logs, labels, batch["loss_weight"], strict=True):
        real = own[own >= 0]
        if weight:  # else it fills the batch
            wanted -= weights[len(real)] * sum(row[n, token] for n, token in enumerate(real)) / 9
    assert found == pytest.approx(wanted, rel=1e-6)


def test_the_weights_of_n_best_texts_are_a_softmax():
    texts = [("a", -0.5), ("b", -1.0), ("c", -2.0), ("", -0.1)]
    for temperature in (1.0, 2.0):
        powers = np.exp(np.array([-0.5, -1.0, -2.0]) / temperature)
        wanted = dict(zip("abc", powers / powers.sum(), strict=True))
        assert weigh_texts(texts, temperature) == pytest.approx(wanted, abs=1e-4)
    others = [{"prediction": "b", "score": -1.0}]
    prediction = {"id": 7, "prediction": "a", "score": -0.5, "others": others}
    labelled, sure = label_record({"id": 7, "source": "x", "targets": ["old"]}, prediction, False)
    assert labelled["targets"] == pytest.approx({"a": 0.6225, "b": 0.3775})
    assert sure == pytest.approx(np.exp(-0.5))
    assert label_record({"id": 7}, prediction, True)[0]["targets"] == ["a"]


def train(project: Path, plan: dict, **settings) -> dict[str, np.ndarray]:
    """Train under observation; return what was recorded, nothing if the plan kills it."""
    folder = project.parent
    record = folder / "record.npz"
    own = plan or {"record": str(record)}
    (folder / "plan.json").write_text(json.dumps(own), encoding="utf-8")
    arguments = flags(project, **settings)
    done = run(WORKER, project, folder / "plan.json", *arguments, cwd=folder, check=False)
    assert done.returncode == (-signal.SIGKILL if plan else 0), f"{done.stdout}\n{done.stderr}"
    if plan:
        return {}
    with np.load(record) as arrays:
        names = [name for name in arrays if name.startswith("weights/")]
        return {name: arrays[name] for name in names}


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_texts_with_weights_are_learned_alike_everywhere(tmp_path):
    """As records of one text each with its weight; on replicas, from a cache, after a kill."""
    project = bake_project("seq2seq", tmp_path, "distillation, cache")
    shorten(project, {"train": 10, "dev": 4, "test": 4})
    sample = project / "sample/train.jsonl"
    gold = [json.loads(line) for line in sample.read_text("utf-8").splitlines()]
    texts = [record["targets"][0] for record in gold]
    pairs = [
        {one: 0.7, other: 0.3} for one, other in zip(texts, [*texts[1:], texts[0]], strict=True)
    ]
    assert all(len(pair) == 2 for pair in pairs)
    both = [{**record, "targets": pair} for record, pair in zip(gold, pairs, strict=True)]
    apart = [
        {**record, "id": f"{record['id']}-{text}", "targets": [text], "weight": share}
        for record, pair in zip(gold, pairs, strict=True)
        for text, share in pair.items()
    ]
    write(project / "both.jsonl", both)
    write(project / "apart.jsonl", apart)
    small = {"epochs": 2, "batch_size": 8, "checkpoint_steps": 1, "dropout": 0.0}
    # With gold, from which the vocabulary is made.
    files = "distillation.files"
    small |= {files: '["both.jsonl"]'}
    one = train(project, {}, **small, run_name="one")
    other = train(project, {}, **{**small, files: '["apart.jsonl"]'}, run_name="apart")
    assert largest_difference(one, other) < 1e-5
    write(project / "plain.jsonl", [{**r, "targets": [*r["targets"]]} for r in both])
    moved = train(project, {}, **{**small, files: '["plain.jsonl"]'}, run_name="plain")
    assert largest_difference(one, moved) > 1e-4
    two = {**small, "strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}
    two |= {"run_name": "two", "cache.enabled": True}
    train(project, {"kill_at": 3}, **two)
    assert largest_difference(one, train(project, {}, **two)) < 1e-5
    label = "extras/distillation/label.py"
    run(label, "one", "sample/test.jsonl", "pseudo.jsonl", "--n_best", "3", cwd=project)
    written = [json.loads(line) for line in (project / "pseudo.jsonl").open(encoding="utf-8")]
    assert len(written) == 4 and any(len(record["targets"]) > 1 for record in written)
    for record in written:
        assert sum(record["targets"].values()) == pytest.approx(1, abs=1e-3)
    student = {files: '["pseudo.jsonl"]', "steps": 2, "run_name": "student"}
    run("train.py", *flags(project, **student), cwd=project)
    done = run(
        label, "one", "sample/test.jsonl", "x.jsonl", "--n_best", "0", cwd=project, check=False
    )
    assert done.returncode == 1 and "--n_best 0 asks a writer for several texts" in done.stderr
