"""The setting `encoders.last_layers`: joined hidden states, and trainings with them."""

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT, use_template
from projects import bake_project, flags, further, run, shorten
from run_weights import largest_difference
from test_encoders import load, write_model

use_template("text_classification")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from core.base.errors import InputError  # noqa: E402
from core.encoders.encoder import encoder_inputs, hidden_states  # noqa: E402
from extras.encoders import settings as table  # noqa: E402
from extras.encoders.last_layers import join_last_layers  # noqa: E402

WORKER = ROOT / "tests/replica_worker.py"
KINDS = ("bert", "roberta", "distilbert", "electra", "albert", "nezha", "roformer", "roformer_v2")
KINDS = (*KINDS, "deberta_v2", "deberta_v3", "modernbert", "mpnet")


def shorter(encoder: keras.Model, layers: int) -> keras.Model:
    """Return an encoder that ends after some layers, with the weights of these."""
    config = {**encoder.get_config(), "num_layers": layers}
    if type(encoder).__name__ == "ModernBert":
        config["layer_options"] = config["layer_options"][:layers]
    cut = type(encoder).from_config(config)
    known = {weight.path: weight for weight in encoder.weights}
    for weight in cut.weights:
        weight.assign(known[weight.path])
    return cut


def last_states(encoder: keras.Model, inputs: dict) -> np.ndarray:
    found = encoder(inputs)
    return (found["sequence_output"] if isinstance(found, dict) else found).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_is_what_an_encoder_that_ends_there_gives(kind, tmp_path):
    encoder = load(write_model(tmp_path, kind))
    if kind == "albert":  # one group: a shorter one has the same weights
        encoder = type(encoder).from_config({**encoder.get_config(), "groups": 1})
    count = encoder.num_layers
    draw, shape = np.random.default_rng(2), (2, 9)
    arrays = {"token_ids": draw.integers(3, 50, shape), "segment_ids": np.zeros(shape)}
    arrays["padding_mask"] = np.arange(9) < [[9], [6]]
    inputs = {t.name: tf.constant(arrays[t.name], "int32") for t in encoder.inputs}
    parts = np.split(join_last_layers(encoder, count)(inputs).numpy(), count, axis=-1)
    np.testing.assert_array_equal(parts[-1], last_states(encoder, inputs))
    for number, part in enumerate(parts[:-1], 1):
        cut = shorter(encoder, number)
        if kind == "modernbert":  # normalizes what its last layer gives
            part = cut.final_norm(part).numpy()
        np.testing.assert_allclose(part, last_states(cut, inputs), atol=1e-5)
        assert np.abs(part - parts[-1]).max() > 0.01
    with pytest.raises(InputError, match=f"{count + 1}, but the encoder has {count} layers"):
        join_last_layers(encoder, count + 1)


def test_heads_read_the_joined_states(tmp_path):
    """Of one layer, and without the setting, they read what they always did."""
    encoder = load(write_model(tmp_path, "bert"))
    width = encoder.hidden_dim
    for count, wanted in ((0, width), (1, width), (2, 2 * width)):
        settings = SimpleNamespace(encoders=SimpleNamespace(last_layers=count))
        hidden = hidden_states(encoder, encoder_inputs(encoder), settings)
        assert hidden.shape[-1] == wanted


@pytest.mark.parametrize("task", ["Seq2seq", "Pre-training"])
def test_tasks_without_a_head_refuse_it(task):
    asked = SimpleNamespace(encoders=SimpleNamespace(last_layers=2, generator=""), task=task)
    assert "encoders.last_layers joins layers" in table.complain(asked)
    asked.encoders.last_layers = 0
    assert table.complain(asked) is None


# Template -> extras, and their settings.
TRAININGS = {
    "text_classification": ("encoders, competition", {"pooling": "attention"}),
    "named_entity_recognition": ("encoders, recompute", {"recompute.enabled": True}),
    "event_extraction": ("encoders", {"devices.xla": True}),
    "reading_comprehension": ("encoders", {}),
    "relation_extraction": ("encoders, lora, regularization", {"regularization.adversary": "fgm"}),
}
TWO = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}


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
@pytest.mark.parametrize("template", further(TRAININGS, "text_classification"))
def test_weights_are_the_same_on_replicas_and_after_a_kill(template, tmp_path):
    """With dropout: one replica, and two with micro-batches that were killed in mid-epoch."""
    extras, asked = TRAININGS[template]
    project = bake_project(template, tmp_path, extras)
    shorten(project, {"train": 19, "dev": 4, "test": 4})
    small = {"epochs": 2, "batch_size": 4, "checkpoint_steps": 1, "clip_norm": 0.05, **asked}
    small |= {"dropout": 0.1, "attention_dropout": 0.1, "encoders.last_layers": 2, "tiny_layers": 3}
    one = train(project, {}, **small, run_name="one")
    two = {**small, **TWO, "run_name": "two"}
    train(project, {"kill_at": 7}, **two)
    assert largest_difference(one, train(project, {}, **two)) < 1e-5
    test = next((project / "sample").glob("test.*"))
    run("evaluate.py", "one", next((project / "sample").glob("dev.*")), cwd=project)
    run("predict.py", "one", test, tmp_path / "out.jsonl", cwd=project)
    scores = json.loads((project / "runs/one/scores.json").read_text("utf-8"))
    [again] = scores["files"].values()
    assert again[scores["monitor"]] == pytest.approx(scores["dev"][scores["monitor"]], abs=1e-6)
    if template == "relation_extraction":
        lora = {"lora.rank": 4, "regularization.adversary": "none", "run_name": "lora", "steps": 3}
        run("train.py", *flags(project, **{**small, **lora}), cwd=project)
        run("predict.py", "lora", test, tmp_path / "lora.jsonl", cwd=project)
