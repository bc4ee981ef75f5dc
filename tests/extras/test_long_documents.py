"""Long texts in overlapping windows: joined states, and what is learned across windows."""

import doctest
import json
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT, use_template
from project_process import ProjectProcess
from projects import TEMPLATES, bake_project, flags, further, run
from run_weights import largest_difference, weights
from small_models import bert_encoder

use_template("text_classification")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.encoders.encoder import encoder_inputs  # noqa: E402
from extras.long_documents import windows as module  # noqa: E402
from extras.long_documents.settings import complain  # noqa: E402
from extras.long_documents.windows import JoinWindows, SplitText, Windows  # noqa: E402
from task.settings import Settings  # noqa: E402

WORDS = "amber basil cedar delta ember fjord grove heath".split()
NAMES = ("river", "stone")
WINDOWED = {"max_length": 96, "long_documents.window": 24, "long_documents.overlap": 8}
SETTINGS = {"batch_size": 8, "seed": 3, "floor": False, "checkpoint_steps": 3, "buckets": 2}
WORKER = ROOT / "tests/replica_worker.py"
TASKS = [name for name in TEMPLATES if name.endswith("_extraction") or name.startswith("named")]


def make_texts(lengths, padded):
    """Return random inputs of an encoder."""
    random = np.random.default_rng(7)
    tokens = np.zeros((len(lengths), padded), "int32")
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = random.integers(3, 20, length)
    mask = (np.arange(padded) < np.array(lengths)[:, None]).astype("int32")
    return {"token_ids": tokens, "padding_mask": mask, "segment_ids": np.zeros_like(tokens)}


def encode(encoder, inputs):
    return encoder(inputs)["sequence_output"].numpy()


def encode_by_hand(encoder, tokens, window, overlap):
    """Return the states of one text: of each token those of the window that shows most around."""
    count, states, rooms = len(tokens), [], []
    starts = [0]
    while starts[-1] + window < count:
        starts.append(starts[-1] + window - 2 - overlap)
    for start in starts:
        own = [tokens[0], *tokens[start + 1 : start + window]]
        goes_on = start + window < count
        if goes_on:
            own[-1] = tokens[-1]
        row = np.array([own], "int32")
        mask, segments = np.ones_like(row), np.zeros_like(row)
        states.append(
            encode(encoder, {"token_ids": row, "padding_mask": mask, "segment_ids": segments})[0]
        )
        before = np.arange(len(own)) if start else np.full(len(own), count)
        after = window - 1 - np.arange(len(own)) if goes_on else np.full(len(own), count)
        rooms.append(np.minimum(before, after))
    found = [states[0][0]]
    for place in range(1, count):
        inside = [
            (rooms[n][place - start], n)
            for n, start in enumerate(starts)
            if 0 < place - start < len(states[n])
        ]
        best = max(inside)[1]  # of equal ones the later window
        found.append(states[best][place - starts[best]])
    return np.array(found)


@pytest.mark.parametrize(
    ("window", "overlap", "padded"), [(8, 2, 30), (8, 4, 30), (9, 3, 26), (10, 0, 40), (10, 5, 11)]
)
def test_states_are_those_of_windows_that_are_encoded_one_by_one(window, overlap, padded):
    encoder = bert_encoder(dropout=0.0, max_sequence_length=window)
    lengths = [n for n in (2, 7, window, window + 1, padded - 1, padded) if n <= padded]
    inputs = make_texts(lengths, padded)
    windows = Windows(window, overlap)
    split = windows.split({name: tf.constant(own) for name, own in inputs.items()})
    joined = windows.join(encoder(split)["sequence_output"], inputs).numpy()
    for row, tokens, length in zip(joined, inputs["token_ids"], lengths, strict=True):
        wanted = encode_by_hand(encoder, tokens[:length], window, overlap)
        np.testing.assert_allclose(row[:length], wanted, atol=2e-6)


def test_a_text_that_fits_has_the_states_that_it_has_without_windows():
    encoder = bert_encoder(dropout=0.0)
    inputs = make_texts([3, 10, 7], 10)
    inner = encoder_inputs(encoder)
    windows = Windows(10, 4)
    hidden = windows.join(encoder(windows.split(inner))["sequence_output"], inner)
    joined = keras.Model(inner, hidden)(inputs).numpy()
    real = inputs["padding_mask"] > 0
    np.testing.assert_array_equal(joined[real], encode(encoder, inputs)[real])


def test_compiled_layers_and_gradients_are_the_same():
    inputs = {name: tf.constant(own) for name, own in make_texts([5, 21, 30], 30).items()}
    states = tf.random.stateless_uniform((3 * 5, 10, 4), (1, 2))

    def both(states):
        with tf.GradientTape() as tape:
            tape.watch(states)
            joined = JoinWindows(10, 3)(states, inputs["padding_mask"])
            loss = tf.reduce_sum(joined * tf.cast(inputs["padding_mask"], "float32")[..., None])
        return SplitText(10, 3)(inputs), joined, tape.gradient(loss, states)

    plain, compiled = both(states), tf.function(both, jit_compile=True)(states)
    tf.nest.map_structure(np.testing.assert_array_equal, plain, compiled)
    # Each token of a text is taken once.
    assert int(tf.reduce_sum(plain[2])) == 4 * (5 + 21 + 30)


def test_examples_of_the_layers():
    failed, attempted = doctest.testmod(module)
    assert attempted and not failed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"window": 64, "overlap": 40}, "overlap = 40 is more than half of window = 64"),
        ({"window": 5, "overlap": 2}, "window = 5 is too short"),
        ({"window": 128, "overlap": 8}, "is no less than max_length = 128"),
    ],
)
def test_windows_that_make_no_sense_are_refused(changes, said):
    with pytest.raises((InputError, ValueError), match=said):
        found = with_tables(Settings)(long_documents=changes)
        raise InputError(complain(found))


def test_the_first_token_does_not_speak_for_a_document():
    table = SimpleNamespace(window=64, overlap=8)
    settings = SimpleNamespace(long_documents=table, max_length=256, pooling="cls")
    assert 'pooling = "cls" reads the first token' in complain(settings)
    settings.pooling = "mean"
    assert complain(settings) is None


# ---------------------------------------------------------------- trainings


def make_record(number, random):
    """The label is a word that is said several times in the second half of a long text."""
    label = NAMES[number % 2]
    words = [*random.choice(WORDS, random.integers(40, 80))]
    for _ in range(4):
        words.insert(int(random.integers(len(words) // 2, len(words))), label)
    return {"id": number, "text_a": " ".join(words), "label": label}


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    project = bake_project(
        "text_classification", tmp_path_factory.mktemp("long"), "long_documents, cache"
    )
    for name, count, first in (("train", 100, 0), ("dev", 40, 200), ("test", 12, 300)):
        random = np.random.default_rng(first)
        lines = [json.dumps(make_record(n, random)) for n in range(first, first + count)]
        (project / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    process = ProjectProcess(project)
    yield process
    process.stop()


def asked(process, name, **settings):
    files = {f"{part}_file": f"{part}.jsonl" for part in ("train", "dev", "test")}
    return flags(process.project, **{**SETTINGS, **files, "run_name": name, **settings})


def train(process, name, **settings):
    done = process.run("train.py", *asked(process, name, **settings))
    assert done.code == 0, f"{done.out}\n{done.err}"
    return weights(process.project / "runs" / name)


def score(process, name):
    path = process.project / "runs" / name / "scores.json"
    return json.loads(path.read_text("utf-8"))["dev"]["accuracy"]


def predict(process, name, file, folder):
    done = process.run("predict.py", name, file, folder / "out.jsonl")
    assert done.code == 0, f"{done.out}\n{done.err}"
    lines = (folder / "out.jsonl").read_text("utf-8").splitlines()
    return np.array([[*json.loads(line)["probabilities"].values()] for line in lines])


@pytest.mark.further
@pytest.mark.trains
def test_the_end_of_a_document_is_read(process, tmp_path):
    long = {"epochs": 6, "learning_rate": 3e-3}
    train(process, "cut", max_length=24, **long)
    train(process, "whole", **WINDOWED, **long)
    assert score(process, "cut") < 0.75 and score(process, "whole") > 0.9
    # What is predicted of a record does not depend on the others.
    together = predict(process, "whole", process.project / "test.jsonl", tmp_path)
    for number, line in enumerate((process.project / "test.jsonl").read_text().splitlines()[:3]):
        (tmp_path / "one.jsonl").write_text(line + "\n", encoding="utf-8")
        alone = predict(process, "whole", tmp_path / "one.jsonl", tmp_path)
        assert np.abs(alone[0] - together[number]).max() < 1e-6


@pytest.mark.further
@pytest.mark.trains
def test_replicas_and_interruptions_learn_the_same(process, tmp_path):
    """One replica; and two with micro-batches and a cache, killed."""
    asks = {**WINDOWED, "epochs": 1, "dropout": 0.2, "attention_dropout": 0.2}
    whole = train(process, "one", **asks)
    two = {"devices.logical_devices": 2, "strategy": "mirrored", "accumulation": 2}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 7}), encoding="utf-8")
    arguments = asked(process, "two", **asks, **two, **{"cache.enabled": True})
    done = run(WORKER, process.project, plan, *arguments, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL, f"{done.stdout}\n{done.stderr}"
    run("train.py", *arguments, cwd=process.project)
    assert largest_difference(whole, weights(process.project / "runs/two")) < 1e-5


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("template", further(TASKS, "relation_extraction"))
def test_tasks_with_spans_train_and_predict_in_windows(template, tmp_path):
    project = bake_project(template, tmp_path, "long_documents")
    asks = {**WINDOWED, "steps": 3, "epochs": 1}
    run("train.py", *flags(project, run_name="x", **asks), cwd=project)
    encoder = json.loads((project / "runs/x/encoder.json").read_text("utf-8"))
    assert encoder["config"]["max_sequence_length"] == WINDOWED["long_documents.window"]
    test = next(project.glob("sample/test.*"))
    run("predict.py", "x", test, tmp_path / "out.jsonl", cwd=project)
    assert (tmp_path / "out.jsonl").stat().st_size
    asks["long_documents.window"] = asks["max_length"]
    done = run("train.py", *flags(project, run_name="y", **asks), cwd=project, check=False)
    assert done.returncode in (1, 2) and "is no less than max_length = 96" in done.stderr
