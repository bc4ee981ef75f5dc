"""Text classification by decoder-only models, of the extra `writers`: what is read, and of what.

The numbers of transformers are in tests/tasks/seq2seq/writer_numbers.json, which
tests/writer_peer.py wrote.
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
from small_models import compile_models, word_piece
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, processors
from writer_peer import CLASSES, CLASSIFIERS, LENGTHS

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.encoders.encoder import load_encoder, load_tokenizer  # noqa: E402
from extras.competition.examples import NumberExample  # noqa: E402
from extras.tpu.static_checks import find_dynamic_shapes  # noqa: E402
from extras.writers.decoder import PromptWriter  # noqa: E402
from library.encoding import encode_examples  # noqa: E402
from task.data import ExampleGenerator  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Example, Labels, collect_targets  # noqa: E402
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


@pytest.mark.shown("gemma3", "gpt2")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma3", "smollm3", "bert_decoder"])
def test_the_last_token_is_what_a_writer_goes_on_from(kind, tmp_path):
    """Its hidden state gives the logits of the next token, with padding anywhere, or without."""
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
    both = build(folder, make_labels(pairs=True), pooling="compare").inference
    assert "text_numbers" in {tensor.name for tensor in both.inputs}
    assert both.get_layer("logits").kernel.shape[0] == 5 * hidden.shape[-1]


def classify(folder: Path, kind: str) -> np.ndarray:
    """Return logits with the head that transformers has."""
    built = build(folder)
    layer = built.inference.get_layer("logits")
    layer.kernel.assign(writer_peer.seeded("score.weight", (CLASSES, built.encoder.hidden_dim)).T)
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


def example(number: int, a: str, b: str | None = None, **changes) -> Example:
    fields = {"labels": ("abc"[number % 3],), "several": False, "group": None, "line": number + 1}
    return Example(str(number), a, b, **{**fields, **changes})


# ----------------------------------------------------------------------- its frame


def made_tokenizer(texts: list[str], frame: str = "$A") -> Tokenizer:
    """Return byte-pair encoding of bytes, with tokens around a text."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(texts, 400, min_frequency=1, special_tokens=["<b>", "<e>"])
    framed = made._tokenizer
    numbers = [(token, framed.token_to_id(token)) for token in ("<b>", "<e>") if token in frame]
    framed.post_processor = processors.TemplateProcessing(single=frame, special_tokens=numbers)
    return framed


TEXTS = ["Ada met Ravi at 18:30 in Torvik.", "Title: it, of: the line\n", "one of them"] * 3


def framed(folder: Path, frame: str = "$A", **changes) -> Tokenizer:
    """Return the tokenizer that core has for the decoder of a folder."""
    write_folder(folder, "gpt2", vocab_size=400)
    (folder / "tokenizer.json").write_text(made_tokenizer(TEXTS, frame).to_str(), "utf-8")
    return load_tokenizer(make_settings(folder, **changes), [])


def read(tokenizer: Tokenizer, *texts: str) -> str:
    [encoding] = encode_examples(tokenizer, [example(0, *texts)], 12)
    assert len(encoding.ids) <= 12
    return tokenizer.decode(encoding.ids, skip_special_tokens=False)


@pytest.mark.parametrize("frame", ["$A", "<b> $A", "<b> $A <e>"])
def test_texts_end_with_a_line_break_whatever_their_length(tmp_path, frame):
    """The tokenizer's own token begins them; the second has no end token before it."""
    tokenizer, begin = framed(tmp_path, frame), "<b>" if "<b>" in frame else ""
    assert read(tokenizer, "Ada met") == f"{begin}Ada met\n"
    assert read(tokenizer, "Ada", "Ravi") == f"{begin}Ada\nRavi\n"
    assert read(tokenizer, "") == f"{begin}\n"
    long = TEXTS[0] * 5
    found = read(tokenizer, long)
    assert found.endswith("\n") and long.startswith(found[len(begin) : -1]) and len(found) > 12
    other = TEXTS[2] * 9
    first, second, rest = read(tokenizer, long, other).removeprefix(begin).split("\n")
    assert first and long.startswith(first) and second and other.startswith(second) and not rest
    # A run keeps the frame: it needs neither the folder nor the prompt.
    kept = Tokenizer.from_str(tokenizer.to_str())
    assert read(kept, "Ada", "Ravi") == f"{begin}Ada\nRavi\n"


def test_a_prompt_stands_around_texts_and_is_never_cut(tmp_path):
    prompt = {"prompt": "Title: {text_b}\nof: {text} it"}
    tokenizer = framed(tmp_path, "<b> $A", writers=prompt)
    assert read(tokenizer, "Ada", "Ravi") == "<b>Title: Ravi\nof: Ada it"
    found = read(tokenizer, TEXTS[0] * 5, "Ravi")
    assert found.startswith("<b>Title: ") and found.endswith(" it") and "\nof: Ada" in found
    [encoding] = encode_examples(tokenizer, [example(0, "Ada", "Ravi")], 64)
    texts = {0: "Ada", 1: "Ravi"}
    for number, text in texts.items():
        own = np.array(encoding.sequence_ids) == number
        assert tokenizer.decode(np.array(encoding.ids)[own].tolist()) == text
    with pytest.raises(InputError, match="writers.prompt leaves no room for a text in max_length"):
        framed(tmp_path, writers=prompt, max_length=8)
    with pytest.raises(InputError, match="leaves an empty text without a token to classify by"):
        framed(tmp_path, writers={"prompt": "{text}"})
    single = framed(tmp_path, writers={"prompt": "{text} of:"})
    assert read(single, "Ada") == "Ada of:"


def test_a_tokenizer_without_line_breaks_keeps_its_frame(tmp_path):
    """As BERT's, which Chinese GPT-2s have, in either file."""
    vocabulary = {w: n for n, w in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] ada ravi of".split())}
    folder = write_folder(tmp_path, "gpt2")
    (folder / "tokenizer.json").write_text(word_piece(vocabulary).to_str(), "utf-8")
    prompt = {"prompt": "{text} of"}
    for name in ("tokenizer.json", "vocab.txt"):
        tokenizer = load_tokenizer(make_settings(folder), [])
        assert read(tokenizer, "Ada", "Ravi") == "[CLS] ada [SEP] ravi [SEP]", name
        if name == "tokenizer.json":
            asked = load_tokenizer(make_settings(folder, writers=prompt), [])
            assert read(asked, "Ada") == "[CLS] ada of"
        (folder / "vocab.txt").write_text("\n".join(vocabulary), "utf-8")
        (folder / "tokenizer.json").unlink(missing_ok=True)
    with pytest.raises(InputError, match="has no tokenizer.json, which writers.prompt and"):
        load_tokenizer(make_settings(folder, writers=prompt), [])


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "prompt", ["Title:", "{text} {text}", "{source} {text}", "{text_b}", "{text} {text_b} {text_b}"]
)
def test_a_prompt_says_where_the_text_stands(prompt):
    with pytest.raises(ValueError, match="{source} must stand in it once.*{text}, and {text_b}"):
        make_settings("somewhere", writers={"prompt": prompt})


def test_a_prompt_is_that_of_the_task():
    with pytest.raises(ValueError, match="'{source}:': this task reads {text}: name it"):
        make_settings("somewhere", writers={"prompt": "{source}:"})


@pytest.mark.parametrize(
    ("changes", "pairs", "message"),
    [
        ({"pooling": "cls"}, False, 'has read nothing else: set pooling = "last", or "mean"'),
        ({"writers": {"prompt": "{text}:"}}, True, "pairs, and writers.prompt has no {text_b}"),
        ({"writers": {"prompt": "{text}{text_b}"}}, False, "has {text_b}, and the records have on"),
        ({"encoder": "tiny", "writers": {"prompt": "{text}:"}}, False, "is a BertEncoder: leave"),
        ({"encoder": "tiny", "writers": {"weights": "random"}}, False, "is a BertEncoder: leave"),
    ],
)
def test_what_does_not_fit_a_decoder(changes, pairs, message, tmp_path):
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    with pytest.raises(InputError, match=re.escape(message)):
        build(folder, make_labels(pairs), **changes)


@pytest.mark.parametrize("kind", ["bart", "t5", "mt5"])
def test_a_writer_of_two_halves_is_refused(kind, tmp_path):
    message = f"is a {kind}, which reads with one half and writes with the other: choose an encoder"
    with pytest.raises(InputError, match=message):
        build(write_folder(tmp_path / kind, kind))


# ----------------------------------------------------------------------- training


HEADS = {
    "softmax": ({}, {}),
    "sigmoid": ({}, {"several": True}),
    "number": ({"output": "number"}, {"labels": ("n",)}),
}


def with_number(one: Example, number: float) -> NumberExample:
    return NumberExample(**vars(one), numbers=(number,))


@pytest.mark.shown("softmax")
@pytest.mark.trains
@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_static_and_teaches_the_decoder(head, tmp_path):
    """With frozen layers, which get no gradient, and both texts of a pair."""
    tokenizer, (changes, fields) = framed(tmp_path), HEADS[head]
    own = [example(n, text, "Ravi", **fields) for n, text in enumerate(TEXTS)]
    if head == "number":
        own = [with_number(one, 0.5 if n else 2.0) for n, one in enumerate(own)]
    settings = make_settings(tmp_path, optimizers={"frozen_layers": 2}, **changes)
    labels = collect_targets(own, settings)
    built = build_models(load_encoder(settings, tokenizer), labels, settings)
    compile_models(settings, built, 4)
    inputs = [tensor.name for tensor in built.inference.inputs]
    assert sorted(inputs) == ["padding_mask", "token_ids"]
    batches = ExampleGenerator(own, tokenizer, labels, inputs, settings, batch_size=4)
    batches.check_keys(built.training)
    batch = {**next(batches.batches(0)), "row": np.arange(4, dtype=np.int32)}
    assert find_dynamic_shapes(built.training, batch) == []
    gradients, _ = built.training.batch_gradients(batch)
    moved = {
        weight.path
        for weight, gradient in zip(built.training.trainable_variables, gradients, strict=True)
        if np.abs(gradient).max() > 0
    }
    assert any("transformer_layer_1/attention/query/kernel" in path for path in moved)
    assert not any("embedding/" in path or "transformer_layer_0" in path for path in moved)


RECORDS, BATCH = 23, 4  # six steps; the last batch has three examples
TRAINING = {
    "encoder": "decoder",
    "max_length": 40,
    "epochs": 1,
    "batch_size": BATCH,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "buckets": 1,
    "checkpoint_steps": 2,
    "writers.prompt": "First: {text}\nSecond: {text_b}\nDo they agree?",
}
REPLICAS = {
    "strategy": "mirrored",
    "devices.logical_devices": 2,
    "accumulation": 2,
    "recompute.enabled": True,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project of pairs with a decoder, and a training that nothing disturbed."""
    extras = "writers, lora, recompute"
    made = bake_project("text_classification", tmp_path_factory.mktemp("p"), extras)
    texts = []
    for file in (made / "sample").glob("*.jsonl"):
        records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for record in records:
            record["text_b"] = record["text_a"][-20:]
            texts.append(record["text_a"])
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        file.write_text("".join(lines), "utf-8")
    shorten(made, {"train": RECORDS, "dev": 8, "test": 4})
    tokenizer = made_tokenizer(texts[:50], "<b> $A")
    folder = write_folder(made / "decoder", "qwen2", vocab_size=tokenizer.get_vocab_size())
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    run("train.py", *flags(made, run_name="whole", **TRAINING), cwd=made)
    return made


def best(project: Path, name: str) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(project / "runs" / name / "best.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


def largest_difference(project: Path, name: str) -> float:
    one, other = best(project, "whole"), best(project, name)
    assert one.keys() == other.keys() and len(one) > 20
    return max(np.abs(one[key] - other[key]).max() for key in one)


@pytest.mark.further
@pytest.mark.trains
def test_two_replicas_micro_batches_and_recomputed_layers(project):
    run("train.py", *flags(project, run_name="two", **{**TRAINING, **REPLICAS}), cwd=project)
    largest = largest_difference(project, "two")
    print(f"largest difference {largest:.1e}")
    assert largest < 1e-5


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_run_that_was_killed_goes_on_to_the_last_bit(project, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 5}), encoding="utf-8")
    asked = flags(project, run_name="killed", **TRAINING)
    result = run(WORKER, project, plan, *asked, cwd=tmp_path, check=False)
    assert result.returncode == -signal.SIGKILL, f"{result.stdout}\n{result.stderr}"
    run("train.py", *asked, cwd=project)
    assert largest_difference(project, "killed") == 0


@pytest.mark.further
@pytest.mark.trains
def test_updates_of_low_rank_predict_beside_another_run(project, tmp_path):
    asked = {**TRAINING, "run_name": "low", "lora.rank": 4, "steps": 2}
    said = run("train.py", *flags(project, **asked), cwd=project).stdout
    assert "updates of rank 4 for 14 kernels" in said
    names = best(project, "low")
    others = {name for name in names if not re.search(r"lora_[ab]$", name)}
    assert len(others) == 2 and len(names) == 2 + 2 * 14  # kernel and bias of the head
    # Together they give the mean of what each scored on dev while it was trained.
    out = tmp_path / "out.jsonl"
    run("predict.py", "whole", "low", "sample/dev.jsonl", out, cwd=project)
    places = [project / "runs" / name / "predictions/dev.jsonl" for name in ("whole", "low")]
    whole, low, both = (
        np.array([[*json.loads(line)["probabilities"].values()] for line in path.open("rb")])
        for path in (*places, out)
    )
    np.testing.assert_allclose(both, (whole + low) / 2, atol=2e-4)
    assert np.abs(whole - low).max() > 1e-3
