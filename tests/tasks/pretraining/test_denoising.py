"""The objective `denoising`: what is damaged, what the writer learns, what others read of it."""

import json
import signal
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from projects import bake_project, flags, run, shorten
from safetensors.numpy import load_file
from scipy import special as functions
from scipy import stats
from small_models import word_piece

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import RecordSettings, with_tables  # noqa: E402
from corpus.pieces import in_words  # noqa: E402
from corpus.special_tokens import SpecialTokens, find_special_tokens  # noqa: E402
from corpus.texts import PaddedTexts  # noqa: E402
from export_formats.folders import export_writer  # noqa: E402
from extras.writers import hooks  # noqa: E402
from task.denoising import damage, draw_spans, share_out  # noqa: E402
from task.masking import NO_TOKEN, lay_out  # noqa: E402
from task.masking import shorten as shorten_layout  # noqa: E402
from task.model import build_models, load_backbone  # noqa: E402
from task.settings import Settings  # noqa: E402

LETTERS = [chr(ord("a") + index) for index in range(26)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *LETTERS, *"的马"]
LENGTH, SURE = 24, 1e-6
TINY = {"tiny_layers": 1, "tiny_width": 128, "max_length": LENGTH, "dropout": 0.0}


def make_settings(**values) -> Settings:
    return with_tables(Settings)(**{"objective": "denoising", "mask_rate": 0.3, **TINY, **values})


@pytest.fixture(scope="module")
def tokenizer():
    return word_piece({token: number for number, token in enumerate(VOCABULARY)})


@pytest.fixture(scope="module")
def tokens(tokenizer) -> SpecialTokens:
    return find_special_tokens(tokenizer)


def make_texts(rows=40, length=LENGTH, seed=2) -> PaddedTexts:
    """Return random texts with a full stop here and there."""
    random = np.random.default_rng(seed)
    sizes = random.integers(3, LENGTH + 1, rows)[:, None]
    places = np.arange(length)
    mask = (places < sizes).astype(np.int32)
    ids = random.integers(5, len(VOCABULARY), (rows, LENGTH)).astype(np.int32)
    ids = np.pad(ids, ((0, 0), (0, length - LENGTH))) * mask
    ids[:, 0] = 2
    ids[places == sizes - 1] = 3
    return PaddedTexts(ids, np.ones_like(ids), mask)


# ------------------------------------------------------------------- what is damaged


def test_spans_hide_the_share_that_is_asked():
    random = np.random.default_rng(3)
    hidden = np.stack([draw_spans(50, 0.3, 3.0, random) for _ in range(4000)])
    assert set(hidden.sum(axis=1)) == {15}
    starts = (hidden & ~np.roll(hidden, 1, axis=1)).sum(axis=1)
    assert set(starts) == {5}, "no two spans touch, the last and the first neither"
    low, high = stats.binom.ppf([SURE / 2, 1 - SURE / 2], 4000, 0.3)
    assert (low <= hidden.sum(axis=0)).all() and (hidden.sum(axis=0) <= high).all()
    odd = [draw_spans(9, 0.3, 3.0, random).sum() for _ in range(4000)]
    low, high = stats.binom.ppf([SURE / 2, 1 - SURE / 2], 4000, 0.7)
    assert set(odd) == {2, 3} and low <= sum(count == 3 for count in odd) <= high  # of 2.7


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_spans_of_short_texts(rate):
    random = np.random.default_rng(4)
    for length in range(12):
        for span_length in (1.0, 3.0, 20.0):
            hidden = draw_spans(length, rate, span_length, random)
            assert hidden.shape == (length,)
            assert abs(hidden.sum() - rate * length) < 1
    counts = np.unique([share_out(5, 3, random) for _ in range(6000)], axis=0, return_counts=True)[
        1
    ]
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > SURE


def test_a_damaged_text_keeps_what_is_not_hidden(tokens):
    ids = np.arange(6, 26, dtype=np.int32)
    for seed in range(50):
        random = np.random.default_rng(seed)
        found = damage(ids, make_settings(permute_sentences=False), tokens, random).tolist()
        kept = [token for token in found if token != tokens.mask]
        assert len(kept) == 14 and kept == sorted(kept)
        # Each gap has its [MASK], and the gaps at both ends may be of one span.
        full = [5, *kept, 26]
        gaps = np.flatnonzero(np.diff(full) > 1)
        expected = np.insert(np.array(kept), gaps, tokens.mask)
        assert found == expected.tolist() and len(gaps) in (2, 3)


def test_sentences_stand_in_any_order(tokens):
    stop = tokens.sentence_ends[0]
    sentences = [[10, 11, stop], [12, stop], [13, 14, 15]]
    ids, settings = np.array(sum(sentences, []), np.int32), make_settings(mask_rate=1e-9)
    random, seen = np.random.default_rng(5), set()
    for _ in range(300):
        seen.add(tuple(damage(ids, settings, tokens, random).tolist()))
    orders = {
        tuple(sum((sentences[n] for n in order), []))
        for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    }
    assert seen == orders


def test_the_decoder_is_taught_the_whole_text(tokens):
    block, settings = make_texts(), make_settings()
    batch = lay_out(block, settings, tokens, np.random.default_rng(6))
    read, labels = batch["padding_mask"], batch["masked_labels"]
    assert read.sum(axis=1).max() <= LENGTH and (read.sum(axis=1) < block.padding_mask.sum(1)).any()
    np.testing.assert_array_equal(batch["token_ids"][read == 0], tokens.pad)
    assert (batch["token_ids"][:, 0] == tokens.begin).all()
    last = read.sum(axis=1) - 1
    assert (batch["token_ids"][np.arange(len(last)), last] == tokens.end).all()
    np.testing.assert_array_equal(batch["target_ids"], block.token_ids[:, :-1])
    used = block.padding_mask[:, 1:] > 0
    np.testing.assert_array_equal(labels, np.where(used, block.token_ids[:, 1:], NO_TOKEN))
    # Other epochs damage other tokens; a longer padding changes nothing else.
    again = lay_out(block, settings, tokens, np.random.default_rng(7))
    assert (again["token_ids"] != batch["token_ids"]).any()
    longer = lay_out(make_texts(length=40), settings, tokens, np.random.default_rng(6))
    for name, array in shorten_layout(longer, settings, LENGTH).items():
        np.testing.assert_array_equal(array, batch[name], err_msg=name)


def test_the_report_shows_the_text_that_was_to_be_written(tokenizer, tokens):
    batch = lay_out(make_texts(), make_settings(), tokens, np.random.default_rng(8))
    best = np.tile(np.array([6, 7, 8]), (LENGTH - 1, 1))
    for number in range(5):
        row = {name: array[number] for name, array in batch.items()}
        found = in_words(row, best, tokenizer, "denoising")
        size = make_texts().padding_mask[number].sum()
        words = [VOCABULARY[token] for token in make_texts().token_ids[number, :size]]
        assert found["text"].replace(" ", "") == "".join(words)
        shown = [found["text"][slice(*hidden["span"])] for hidden in found["hidden"]]
        assert shown == words[1:]


# ------------------------------------------------------------------- what is learned


def build(tokenizer, **values):
    """Return settings, writer and models, with weights that are nowhere near zero."""
    settings = make_settings(**values)
    writer = load_backbone(settings, tokenizer)
    models, random = build_models(writer, settings), np.random.default_rng(1)
    for weight in models.training.trainable_variables:
        scale = 0.1 if len(weight.shape) > 1 else 0.05
        weight.assign(weight + scale * random.normal(size=weight.shape))
    return settings, writer, models


def make_batch(tokens, rows=6) -> dict[str, np.ndarray]:
    return lay_out(make_texts(rows), make_settings(), tokens, np.random.default_rng(9))


def logits_of(models, batch) -> np.ndarray:
    names = ("token_ids", "padding_mask", "target_ids")
    writer = models.training.get_layer("writer")
    return np.asarray(writer(**{name: tf.constant(batch[name]) for name in names}))


def test_loss_and_scores_are_those_of_numpy(tokenizer, tokens):
    _, _, models = build(tokenizer)
    batch = make_batch(tokens)
    logits, labels = logits_of(models, batch), batch["masked_labels"]
    used = labels != NO_TOKEN
    chosen = np.take_along_axis(logits, np.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    expected = ((functions.logsumexp(logits, axis=-1) - chosen) * used).sum(axis=1)
    np.testing.assert_allclose(models.training(batch)["token_loss"], expected, rtol=1e-4)
    outputs = models.inference(batch)
    np.testing.assert_allclose(outputs["surprise"], expected, rtol=1e-4)
    right = ((logits.argmax(axis=-1) == labels) & used).sum(axis=1)
    np.testing.assert_array_equal(outputs["correct"], right)


def test_a_token_is_written_from_those_before_it_and_the_copy(tokenizer, tokens):
    _, _, models = build(tokenizer)
    batch = make_batch(tokens)
    before = logits_of(models, batch)
    written = {**batch, "target_ids": batch["target_ids"].copy()}
    written["target_ids"][:, 5] = 7 + (written["target_ids"][:, 5] == 7)
    changed = np.abs(logits_of(models, written) - before).max(axis=-1) > 1e-6
    assert not changed[:, :5].any() and changed[:, 5].all()
    read = {**batch, "token_ids": batch["token_ids"].copy()}
    read["token_ids"][:, 1] = 7 + (read["token_ids"][:, 1] == 7)
    assert (np.abs(logits_of(models, read) - before).max(axis=-1) > 1e-6).all()


def test_positions_of_a_new_writer_begin_as_waves(tokenizer):
    writer = load_backbone(make_settings(), tokenizer)
    table = np.asarray(writer.positions["decoder"].embeddings)
    alike = table @ table.T
    assert np.argsort(-alike[10])[:3].tolist()[0] == 10
    assert set(np.argsort(-alike[10])[1:3].tolist()) == {9, 11}
    assert np.abs(table).max() == pytest.approx(0.02 * 2**0.5, rel=1e-3)


# ------------------------------------------------------------------- what others read


@pytest.fixture(scope="module")
def exported(tokenizer, tmp_path_factory):
    """A writer, its models, and the folder that it was exported to."""
    _, writer, models = build(tokenizer)
    writer.score_bias.assign(np.linspace(-1, 1, len(VOCABULARY)))
    folder = tmp_path_factory.mktemp("exported") / "writer"
    export_writer(folder, writer, tokenizer)
    return models, folder


def writing_settings(folder: Path, **values) -> RecordSettings:
    """Return the settings of a project of text generation that names a folder."""
    written = {"model": "pretrained", "encoder": str(folder), "target_length": 8, **values}
    made = with_tables(RecordSettings).model_construct(max_length=LENGTH, dropout=0.0)
    return made.model_copy(update={"attention_dropout": 0.0, **written})


def test_text_generation_loads_it(exported, tokens, tokenizer, capsys):
    models, folder = exported
    loaded = hooks.load_backbone(writing_settings(folder), folder)
    assert capsys.readouterr().out == ""  # nothing is unknown, and nothing unused
    assert loaded.frame == (tokens.begin, tokens.end) and loaded.other_ends == []
    batch = make_batch(tokens)
    inputs = {name: tf.constant(batch[name]) for name in ("token_ids", "padding_mask")}
    memory = loaded.read(**inputs)
    logits = loaded.decode(tf.constant(batch["target_ids"]), memory, inputs["padding_mask"])
    np.testing.assert_allclose(logits, logits_of(models, batch), atol=1e-5)
    words = hooks.load_tokenizer(str(folder), folder)
    assert words.encode("a b.").ids == tokenizer.encode("a b.").ids


def test_a_training_goes_on_with_it(exported, tokens, tokenizer):
    models, folder = exported
    settings = make_settings(encoder=str(folder))
    again = build_models(load_backbone(settings, tokenizer), settings)
    batch = make_batch(tokens)
    np.testing.assert_allclose(logits_of(again, batch), logits_of(models, batch), atol=1e-6)
    clone = keras.models.clone_model(again.training)
    clone.set_weights(again.training.get_weights())
    expected = again.training(batch)["token_loss"]
    np.testing.assert_allclose(clone(batch)["token_loss"], expected, rtol=1e-6)


def test_the_same_model_begins_from_nothing(exported, tokenizer, tmp_path):
    """Its folder may lack the weights, because they are not read."""
    _, folder = exported
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    trained = hooks.load_backbone(writing_settings(folder), folder)
    random = {"prompt": "", "weights": "random"}
    table = type(with_tables(RecordSettings)().writers)(**random)
    found = []
    for place in (folder, tmp_path):
        keras.utils.set_random_seed(5)
        found.append(hooks.load_backbone(writing_settings(place, writers=table), place))
    new = load_backbone(make_settings(), tokenizer)
    read = {name: found[0].get_config()[name] for name in ("name", "described")}
    assert {**new.get_config(), **read} == found[0].get_config()
    for one, other, was in zip(*(w.get_weights() for w in (*found, trained)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.shape == was.shape and (one.ndim == 1 or np.abs(one - was).max() > 0.05)
    kernels = [np.array(weight) for weight in found[0].weights if weight.name == "kernel"]
    assert len(kernels) == 16
    for kernel in kernels:
        assert kernel.std() == pytest.approx(kernel.shape[0] ** -0.5, rel=0.05)


# Writes logits of an exported writer: python -c LOGITS FOLDER INPUTS.npz OUT.npz
LOGITS = """
import sys
import numpy, torch, transformers
inputs = {name: torch.tensor(array) for name, array in numpy.load(sys.argv[2]).items()}
model, found = transformers.AutoModelForSeq2SeqLM.from_pretrained(
    sys.argv[1], output_loading_info=True, local_files_only=True, attn_implementation="eager"
)
assert not found["missing_keys"] and not found["unexpected_keys"], found
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)
with torch.no_grad():
    logits = model.eval()(**inputs).logits.numpy()
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    written = model.generate(**inputs, max_new_tokens=8, num_beams=1, do_sample=False).numpy()
ids = numpy.array(tokenizer("a b.")["input_ids"])
numpy.savez(sys.argv[3], logits=logits, written=written, ids=ids)
"""


@needs_peer
def test_transformers_computes_the_same(exported, tokens, tokenizer, tmp_path):
    models, folder = exported
    batch = make_batch(tokens)
    before = np.full((6, 1), tokens.end)
    inputs = {
        "input_ids": batch["token_ids"],
        "attention_mask": batch["padding_mask"],
        "decoder_input_ids": np.concatenate([before, batch["target_ids"]], axis=1),
    }
    arrays = {name: array.astype("int64") for name, array in inputs.items()}
    np.savez(tmp_path / "inputs.npz", **arrays)
    run_peer(LOGITS, folder, tmp_path / "inputs.npz", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    worst = np.abs(out["logits"][:, 1:] - logits_of(models, batch)).max()
    print(f"logits {worst:.1e}")
    assert worst < 1e-4
    assert out["ids"].tolist() == tokenizer.encode("a b.").ids
    assert (out["written"][:, :2] == [tokens.end, tokens.begin]).all(), "as it was taught"


def test_what_is_refused(exported, tokenizer, tmp_path):
    _, folder = exported
    with mock.patch("core.base.extras.present", lambda: []):
        with pytest.raises(InputError, match="this needs extras/writers, which is absent: add it"):
            load_backbone(make_settings(), tokenizer)
    with pytest.raises(InputError, match="max_length = 25, but .* reads 24 tokens"):
        load_backbone(make_settings(encoder=str(folder), max_length=25), tokenizer)
    others = word_piece({t: n for n, t in enumerate([*VOCABULARY[:-1], "z"])})
    with pytest.raises(InputError, match="the shards were prepared with other tokens than"):
        load_backbone(make_settings(encoder=str(folder)), others)
    for kind in ("t5", "bert"):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}), encoding="utf-8")
        with pytest.raises(InputError, match=f"continues only from a BART, and .* is a {kind}: na"):
            load_backbone(make_settings(encoder=str(tmp_path)), tokenizer)
    with pytest.raises(InputError, match="is a preset: name such a folder"):
        with mock.patch("core.encoders.encoder.from_preset", lambda *_: load_embedding()):
            load_backbone(make_settings(encoder="bart_base_en"), tokenizer)
    with pytest.raises(ValueError, match="set lora.rank = 0, or writers.weights = pretrained"):
        make_settings(lora={"rank": 4}, writers={"weights": "random"})


def load_embedding() -> mock.Mock:
    """Return a stub of a KerasHub backbone."""
    return mock.Mock(spec=["token_embedding"], token_embedding=mock.Mock(input_dim=100))


# ------------------------------------------------------------------------- training


@pytest.mark.further
@pytest.mark.trains
def test_a_killed_training_of_a_writer_ends_like_one_on_two_replicas(tmp_path):
    """Which is to 1e-5; what it exports is what it ended with."""
    project = bake_project("pretraining", tmp_path, "writers")
    shorten(project, {"train": 40, "dev": 8})
    asked = {"objective": "denoising", "mask_rate": 0.3, "batch_size": 16, "epochs": 3}
    asked |= {"tiny_width": 64, "dropout": 0.1, "attention_dropout": 0.1, "checkpoint_steps": 2}
    plan, worker = tmp_path / "plan.json", ROOT / "tests/replica_worker.py"
    plan.write_text(json.dumps({"kill_at": 5}), encoding="utf-8")
    arguments = flags(project, run_name="killed", **asked)
    killed = run(worker, project, plan, *arguments, cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (project / "runs/killed/checkpoint.npz").is_file()
    run("train.py", *arguments, cwd=project)
    both = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}
    run("train.py", *flags(project, run_name="whole", **asked, **both), cwd=project)
    for name in ("killed", "whole"):
        run("export.py", name, tmp_path / name, cwd=project)
    found = [load_file(tmp_path / name / "model.safetensors") for name in ("killed", "whole")]
    worst = max(np.abs(found[0][name] - found[1][name]).max() for name in found[0])
    print(f"largest difference of a weight {worst:.1e}")
    assert found[0].keys() == found[1].keys() and worst < 1e-5
    refused = run(
        "export.py", "whole", tmp_path / "x", "--preset", tmp_path / "y", cwd=project, check=False
    )
    assert refused.returncode == 1 and "--preset writes encoders only" in refused.stderr
