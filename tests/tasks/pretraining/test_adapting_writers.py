"""Decoders go on learning from plain text: the losses of transformers, and what is exported.

causal_numbers.json is written by tests/causal_peer.py. Where a Python has torch and transformers,
see tests/peer.py, the exported models are read there too.
"""

import json
from pathlib import Path

import causal_peer
import keras
import numpy as np
import pytest
import tensorflow as tf
import writer_peer
from causal_peer import KINDS
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from small_models import word_piece
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, pre_tokenizers, processors

pytestmark = pytest.mark.slow

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.encoders.encoder import (  # noqa: E402
    load_encoder,
    load_tokenizer,
    restore_encoder,
    save_encoder,
)
from corpus.encode import encode_texts  # noqa: E402
from corpus.special_tokens import find_special_tokens  # noqa: E402
from corpus.texts import from_examples  # noqa: E402
from corpus.vocabulary import find_tokenizer  # noqa: E402
from export_formats.folders import export_hugging_face  # noqa: E402
from export_formats.hugging_face import load_head  # noqa: E402
from task.data import token_weights  # noqa: E402
from task.masking import lay_out  # noqa: E402
from task.model import build_models, language_model, load_backbone  # noqa: E402
from task.settings import Settings  # noqa: E402

HERE = Path(__file__).parent
LOSSES = json.loads((HERE / "causal_numbers.json").read_text(encoding="utf-8"))
MADE = json.loads((HERE.parent / "seq2seq/writer_numbers.json").read_text(encoding="utf-8"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENCODING = {
    "max_length": 12,
    "short_length": 8,
    "short_share": 0.0,
    "words": "auto",
    "packing": True,
}


def make_settings(**values) -> Settings:
    return Settings.model_construct(
        **{"max_length": 12, "dropout": 0.0, "objective": "causal", **values}
    )


def letters(kind: str, count: int = 60) -> Tokenizer:
    """Return a tokenizer of 60 tokens: BERT's, or letters of bytes with none around a text."""
    special = ["[PAD]", "[UNK]", "<2>", "[CLS]", "<4>", "<5>", "<6>", "[SEP]"]
    tokens = [*special, *LETTERS, "Ġ", *(f"##{letter}" for letter in LETTERS)][:count]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if kind == "bert_decoder":
        return word_piece(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special[7:])
    return tokenizer


def write_model(folder: Path, kind: str, tokenizer: Tokenizer | None = None, **fields) -> Path:
    writer_peer.write_folder(folder, MADE[kind], **fields)
    (tokenizer or letters(kind)).save(str(folder / "tokenizer.json"))
    return folder


def load(folder: Path):
    """Return the tokenizer and the models that train.py would have."""
    settings = make_settings(encoder=str(folder))
    tokenizer = find_tokenizer(settings)
    built = build_models(load_backbone(settings, tokenizer), settings)
    load_head(language_model(built.training), settings.encoder)
    return tokenizer, built


def read_batch() -> dict[str, tf.Tensor]:
    return {name: tf.constant(array, "int32") for name, array in causal_peer.batch().items()}


def mean_loss(built) -> float:
    """Return the loss of a batch as a training computes it."""
    batch = causal_peer.batch()
    weights = token_weights(batch, len(batch["token_ids"]))
    return float(np.sum(weights * np.asarray(built.training(read_batch())["token_loss"])))


def states(encoder, batch) -> np.ndarray:
    return np.asarray(encoder({name: batch[name] for name in ("token_ids", "padding_mask")}))


@pytest.mark.shown("gpt2", "gemma3")
@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_are_those_of_transformers(kind, tmp_path, capsys):
    _, built = load(write_model(tmp_path / kind, kind))
    said = capsys.readouterr().out
    assert "anew" not in said and "warning" not in said
    found = mean_loss(built)
    print(f"{kind}: difference of the loss {abs(found / LOSSES[kind] - 1):.1e}")
    assert found == pytest.approx(LOSSES[kind], rel=1e-5)
    clone = keras.models.clone_model(built.training)
    clone.set_weights(built.training.get_weights())
    expected = built.training(read_batch())["token_loss"]
    np.testing.assert_allclose(clone(read_batch())["token_loss"], expected, rtol=1e-6)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[dict, Path]:
    """A changed model of each kind, and the folder of their exports."""
    folder, found = tmp_path_factory.mktemp("exported"), {}
    for kind in KINDS:
        tokenizer, built = load(write_model(folder / f"{kind}_before", kind))
        random = np.random.default_rng(1)
        for weight in built.training.trainable_variables:  # as a training would change all
            weight.assign(weight + 0.05 * random.normal(size=weight.shape))
        found[kind] = built
        export_hugging_face(folder / kind, language_model(built.training), tokenizer)
    return found, folder


@pytest.mark.shown("smollm3")
@pytest.mark.parametrize("kind", KINDS)
def test_an_export_goes_on(kind, exported):
    built, folder = exported
    tokenizer, again = load(folder / kind)
    assert mean_loss(again) == pytest.approx(mean_loss(built[kind]), rel=1e-6)
    before = find_tokenizer(make_settings(encoder=str(folder / f"{kind}_before")))
    assert tokenizer.encode("a cab").ids == before.encode("a cab").ids
    # Written a second time, nothing changes.
    export_hugging_face(folder / f"{kind}_twice", language_model(again.training), tokenizer)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        one, other = ((folder / n / name).read_bytes() for n in (kind, f"{kind}_twice"))
        assert one == other, name


@pytest.mark.shown("gpt2", "gemma3")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_keeps_a_decoder(kind, exported, tmp_path):
    """All its weights are in a file: also the bias of a causal BERT's vocabulary."""
    built, settings = exported[0][kind], make_settings()
    save_encoder(tmp_path, built.encoder, letters(kind))
    restored = build_models(restore_encoder(tmp_path)[0], settings)
    built.inference.save_weights(tmp_path / "best.weights.h5")
    restored.inference.load_weights(tmp_path / "best.weights.h5")
    found = restored.training(read_batch())["token_loss"]
    np.testing.assert_array_equal(found, built.training(read_batch())["token_loss"])


@needs_peer
def test_transformers_computes_the_same_of_the_exports(exported):
    built, folder = exported
    program = (ROOT / "tests/causal_peer.py").read_text(encoding="utf-8")
    run_peer(program, ROOT / "tests", folder, "read")
    for kind in KINDS:
        peer, batch = np.load(folder / kind / "peer.npz"), read_batch()
        encoder = language_model(built[kind].training).encoder
        logits = np.asarray(encoder.score(states(encoder, batch)))
        real = np.asarray(batch["padding_mask"]) > 0
        largest = np.abs(logits - peer["logits"])[real].max()
        print(f"{kind}: logits {largest:.1e} of up to {np.abs(logits).max():.1f}")
        np.testing.assert_allclose(logits[real], peer["logits"][real], rtol=1e-5, atol=1e-5)
        assert mean_loss(built[kind]) == pytest.approx(float(peer["loss"]), rel=1e-5)
        raw = Tokenizer.from_file(str(folder / f"{kind}_before/tokenizer.json"))
        assert peer["tokens"].tolist() == raw.encode("a cab").ids


# --- tokens ---


def byte_pairs(special: tuple[str, ...]) -> Tokenizer:
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(["Ada met Ravi."], 300, min_frequency=1, special_tokens=[*special])
    return made._tokenizer


def test_a_token_of_its_own_comes_before_a_text(tmp_path):
    """Llama 3's layout: a template behind the processor of bytes."""
    tokenizer = byte_pairs(("<b>", "<e>"))
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<b> $A", special_tokens=[("<b>", 0)]),
        ]
    )
    fields = {"vocab_size": tokenizer.get_vocab_size(), "eos_token_id": 1}
    folder = write_model(tmp_path / "llama", "llama", tokenizer, **fields)
    chat = {"chat_template": "{{ messages[0]['content'] }}", "eos_token": "<e>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(chat), encoding="utf-8")
    framed, built = load(folder)
    assert framed.encode("Ada met").tokens == ["<b>", "Ada", "Ġmet", "<e>"]
    special = find_special_tokens(framed, "causal")
    assert (special.begin, special.end, special.pad, special.mask) == (0, 1, 1, -1)
    # The examples of the shards: lines with ends between, all between both tokens.
    examples = encode_texts(["Ada met", "Ravi."], framed, ENCODING)
    texts = from_examples(examples)
    padded = texts.pad(np.arange(1), texts.lengths[0] + 1, special)
    batch = lay_out(padded, make_settings(), special, np.random.default_rng(0))
    tokens = [framed.id_to_token(number) for number in batch["token_ids"][0]]
    second = framed.encode("Ravi.", add_special_tokens=False).tokens
    assert tokens == ["<b>", "Ada", "Ġmet", "<e>", *second, "<e>", "<e>"]
    assert batch["masked_labels"][0].tolist() == [*batch["token_ids"][0, 1:-1].tolist(), -1]
    export_hugging_face(tmp_path / "made", language_model(built.training), framed)
    made = json.loads((tmp_path / "made/tokenizer.json").read_text("utf-8"))
    assert made["post_processor"] == json.loads(tokenizer.to_str())["post_processor"]
    settings = json.loads((tmp_path / "made/tokenizer_config.json").read_text("utf-8"))
    assert settings["chat_template"] == chat["chat_template"] and settings["eos_token"] == "<e>"


def test_without_such_a_token_the_end_comes_before_a_text(tmp_path):
    tokenizer = byte_pairs(("<|endoftext|>",))
    fields = {"vocab_size": tokenizer.get_vocab_size(), "eos_token_id": 0, "bos_token_id": 0}
    framed = find_tokenizer(
        make_settings(encoder=str(write_model(tmp_path / "gpt2", "gpt2", tokenizer, **fields)))
    )
    assert framed.encode("Ada").tokens == ["<|endoftext|>", "Ada", "<|endoftext|>"]
    assert framed.get_vocab() == tokenizer.get_vocab()


# --- refused ---


@pytest.mark.parametrize("objective", ["masked", "unilm"])
def test_a_decoder_reads_from_left_to_right(objective, tmp_path):
    settings = make_settings(
        encoder=str(write_model(tmp_path / "qwen2", "qwen2")), objective=objective
    )
    for read in (find_tokenizer, lambda s: load_backbone(s, letters("gpt2"))):
        with pytest.raises(InputError, match='is a qwen2, .* set objective = "causal" instead'):
            read(settings)


def test_an_encoder_with_a_decoder_is_no_decoder(tmp_path):
    settings = make_settings(encoder=str(write_model(tmp_path / "t5", "t5")))
    with pytest.raises(InputError, match="is a t5, which reads with one half"):
        load_encoder(settings, letters("gpt2"))


@pytest.mark.parametrize(
    ("fields", "tokens", "message"),
    [
        ({"eos_token_id": 59}, 30, "names the token 59, which tokenizer.json lacks"),
        ({"eos_token_id": None}, 60, "has no eos_token_id"),
        ({}, 0, "has no tokenizer.json"),
    ],
)
def test_what_a_folder_needs(fields, tokens, message, tmp_path):
    folder = write_model(tmp_path / "gpt2", "gpt2", letters("gpt2", tokens or 60), **fields)
    if not tokens:
        (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=message):
        load_tokenizer(make_settings(encoder=str(folder)), [])
