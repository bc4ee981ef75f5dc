"""Decoders that classify by a word for each label, and their chats."""

import json
import shutil
from pathlib import Path

import chat_peer
import h5py
import keras
import numpy as np
import pytest
import writer_peer
from chat_peer import CASES, SOURCES, TEMPLATES
from conftest import ROOT, use_template
from keras import ops
from projects import bake_project, flags, run, shorten
from scipy import special
from tokenizers import Tokenizer

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.encoders.encoder import load_encoder, load_tokenizer  # noqa: E402
from library.encoding import encode_examples  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Example, Labels  # noqa: E402
from task.settings import Settings  # noqa: E402

HERE = ROOT / "tests/tasks/seq2seq"
NUMBERS = json.loads((HERE / "chat_numbers.json").read_text("utf-8"))
WRITERS = json.loads((HERE / "writer_numbers.json").read_text("utf-8"))
WORDS = {"no": "No", "yes": "Yes!", "unsure": "Maybe"}


def make_settings(folder: Path, writers: dict | None = None, **changes) -> Settings:
    plain = {"encoder": str(folder), "max_length": 200, "dropout": 0.0}
    table = {"answers": WORDS} if writers is None else writers
    return with_tables(Settings)(**{**plain, "writers": table, **changes})


def write_folder(folder: Path, kind: str = "qwen2", template: str = "") -> Path:
    """Make a folder with a small writer, a token for each byte, and perhaps a chat template."""
    tokenizer = chat_peer.make_tokenizer()
    size = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 400}
    writer_peer.write_folder(folder, WRITERS[kind], **size)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    config = {"bos_token": chat_peer.BOS, "eos_token": chat_peer.EOS, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def make_labels(names: tuple[str, ...] = ("no", "unsure", "yes"), several: bool = False) -> Labels:
    return Labels(names, several, None, (1,) * len(names), 3, False)


def build(settings: Settings, labels: Labels | None = None):
    """Return the encoder and the models of a classifier."""
    encoder = load_encoder(settings, chat_peer.make_tokenizer())
    return encoder, build_models(encoder, labels or make_labels(), settings)


def read_batch(moved=np.asarray) -> dict[str, np.ndarray]:
    read = writer_peer.arrays("qwen2")
    arrays = {"token_ids": moved(read["ids"]), "padding_mask": moved(read["mask"])}
    return {name: array.astype(np.int32) for name, array in arrays.items()}


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "gemma3"])
def test_the_answer_is_what_the_writer_would_write_next(kind, tmp_path):
    """Its logits are those of transformers, see test_writers.py; here of the first new token."""
    encoder, models = build(make_settings(write_folder(tmp_path, kind), max_length=16))
    own = chat_peer.make_tokenizer()
    tokens = [own.encode(WORDS[n]).ids[1] for n in ("no", "unsure", "yes")]  # behind BOS
    for moved in (np.asarray, writer_peer.left):
        batch = read_batch(moved)
        target = np.zeros((len(batch["token_ids"]), 1), np.int32)
        logits = np.asarray(encoder.write({**batch, "target_ids": target}))[:, 0, tokens]
        expected = special.softmax(logits.astype(float), axis=1)
        found = np.asarray(models.inference(batch)["probabilities"])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        assert np.ptp(found, axis=0).max() > 1e-3
        targets = np.eye(3, dtype=np.float32)[[1, 0, 2]]
        loss = models.training({**batch, "targets": targets})["label_loss"]
        np.testing.assert_allclose(loss, -np.log(expected[[0, 1, 2], [1, 0, 2]]), atol=1e-5)
    # Nothing is learned but the writer.
    trained = {weight.path for weight in models.training.trainable_variables}
    assert trained == {weight.path for weight in encoder.trainable_variables}


def test_logits_of_words_are_fine_in_bfloat16(tmp_path):
    folder = write_folder(tmp_path)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        _, models = build(make_settings(folder))
    finally:
        keras.config.set_dtype_policy("float32")
    model = keras.Model(models.inference.inputs, models.inference.get_layer("logits").output)
    logits = model(read_batch())
    assert logits.dtype == "float32"
    assert np.abs(logits - ops.cast(ops.cast(logits, "bfloat16"), "float32")).max() > 1e-5


def test_a_decoder_comes_back_with_its_answers(tmp_path):
    settings = make_settings(write_folder(tmp_path))
    encoder, models = build(settings)
    again = type(encoder).from_config(encoder.get_config())
    again.set_weights(encoder.get_weights())
    built = build_models(again, make_labels(), make_settings(tmp_path, writers={}))
    batch = read_batch()
    expected = models.inference(batch)["probabilities"]
    np.testing.assert_array_equal(built.inference(batch)["probabilities"], expected)


@pytest.mark.parametrize(
    ("changes", "labels", "message"),
    [
        ({}, make_labels(("no", "yes")), "has words for .*no.*, and the labels of train_file"),
        ({}, make_labels(several=True), "records have several labels, numbers or groups"),
        ({"pooling": "mean"}, None, "reads the last token, not pooling = mean"),
        ({"writers": {"answers": {"a": "Yes", "b": "Young"}}}, None, "differ in their first token"),
        ({"encoders": {"last_layers": 2}}, None, "reads the last layer, and encoders.last_layers"),
    ],
)
def test_what_no_answer_fits(changes, labels, message, tmp_path):
    with pytest.raises(InputError, match=message):
        build(make_settings(write_folder(tmp_path), **changes), labels)


def test_words_are_words(tmp_path):
    with pytest.raises(ValueError, match="each label needs a word"):
        make_settings(tmp_path, writers={"answers": {"yes": 1}})
    encoder = {"encoder": "tiny"}
    with pytest.raises(InputError, match="is a BertEncoder: leave the table as it came"):
        build(make_settings(tmp_path, **encoder))


# ------------------------------------------------------------------------------ chats


def read_texts(folder: Path, texts: list[tuple], **writers) -> list[list[int]]:
    """Return the tokens of records, by the tokenizer that a run gives back."""
    settings = make_settings(folder, writers={"chat": "tokenizer", **writers})
    tokenizer = Tokenizer.from_str(load_tokenizer(settings, []).to_str())
    records = [Example(str(n), *own, ("no",), False, None, n) for n, own in enumerate(texts)]
    return [encoding.ids for encoding in encode_examples(tokenizer, records, 200)]


@pytest.mark.parametrize("name", ["qwen", "qwen_system", "llama", "llama_system", "gemma"])
def test_chats_are_those_of_transformers(name, tmp_path):
    """Except for blanks around a text, which some templates drop."""
    template, system, variables = CASES[name]
    folder = write_folder(tmp_path, template=TEMPLATES[template])
    places = [place for place, text in enumerate(SOURCES) if text == text.strip()]
    texts = [(SOURCES[place], None) for place in places]
    found = read_texts(folder, texts, system=system, chat_variables=variables)
    assert found == [NUMBERS[name][place] for place in places] and len(found) == 3


def test_a_pair_is_said_by_the_user(tmp_path):
    folder = write_folder(tmp_path, template=TEMPLATES["gemma"])
    tokenizer = chat_peer.make_tokenizer()
    frame = "<s><start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n"
    layouts = {"": "Ada\nRavi", "Is {text_b}\n{text}?": "Is Ravi\nAda?"}
    for prompt, said in layouts.items():
        [ids] = read_texts(folder, [("Ada", "Ravi")], prompt=prompt)
        assert tokenizer.decode(ids, skip_special_tokens=False) == frame.format(said)


def test_only_the_prompt_has_places_for_texts(tmp_path):
    """What the system says is said as it is, whatever names it has in braces."""
    folder = write_folder(tmp_path, template=TEMPLATES["qwen"])
    tokenizer = chat_peer.make_tokenizer()
    system = "Classify {text} or {text_b}"
    [ids] = read_texts(folder, [("Ada", None)], prompt="Is {text} good?", system=system)
    said = tokenizer.decode(ids, skip_special_tokens=False)
    assert system in said and "Is Ada good?" in said and said.count("Ada") == 1


def best(project: Path, name: str) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(project / "runs" / name / "best.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


@pytest.mark.further
@pytest.mark.trains
def test_answers_are_learned_on_replicas_and_predicted_without_the_folder(tmp_path):
    project = bake_project("text_classification", tmp_path, "writers, lora, chunks")
    lines = [json.dumps({"id": n, "text_a": f"{n}", "label": "yny"[n % 3]}) for n in range(12)]
    for name in ("train", "dev", "test"):
        (project / f"sample/{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    shorten(project, {"train": 12, "dev": 6, "test": 6})
    folder = write_folder(tmp_path / "writer", template=TEMPLATES["qwen"])
    words = json.dumps({"y": "Yes", "n": "No"})
    asked = {"encoder": str(folder), "max_length": 120, "batch_size": 4, "epochs": 1}
    asked |= {"writers.chat": "tokenizer", "writers.answers": words, "floor": False}
    asked |= {"learning_rate": 1e-3, "dropout": 0.1}
    two = {"strategy": "mirrored", "devices.logical_devices": 2}
    for name, own in {"one": {}, "two": two, "low": {"lora.rank": 2}}.items():
        run("train.py", *flags(project, **asked, **own, run_name=name), cwd=project)
    one, other = best(project, "one"), best(project, "two")
    assert one.keys() == other.keys() and len(one) > 20
    assert max(np.abs(one[name] - other[name]).max() for name in one) < 1e-5
    assert all("lora_" in name for name in best(project, "low"))
    shutil.rmtree(folder)
    found = [read_probabilities(project / "runs/one/predictions/dev.jsonl")]
    for more in ((), ("--chunk", "2")):  # chunks have other batches
        out = tmp_path / "out.jsonl"
        run("predict.py", "one", "sample/dev.jsonl", out, *more, cwd=project)
        found.append(read_probabilities(out))
        out.unlink()
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-6)
    assert found[0].shape == (6, 2) and np.ptp(found[0]) > 1e-4


def read_probabilities(path: Path) -> np.ndarray:
    lines = path.read_text("utf-8").splitlines()
    return np.array([[*json.loads(line)["probabilities"].values()] for line in lines])
