"""Masked words with encoders of all families: the losses of transformers, and what is exported.

masked_numbers.json is written by tests/masked_peer.py. Where a Python has torch and transformers,
see tests/peer.py, the exported models are read there too.
"""

import json
from pathlib import Path

import keras
import masked_peer
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT, use_template
from encoder_peer import seeded
from masked_peer import KINDS
from peer import needs_peer, run_peer
from safetensors.numpy import load_file, save_file
from small_models import word_piece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

pytestmark = pytest.mark.slow

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.encoders.encoder import (  # noqa: E402
    load_encoder,
    load_tokenizer,
    restore_encoder,  # noqa: E402
    save_encoder,
)
from corpus.encode import encode_lines  # noqa: E402
from corpus.pieces import join_pieces  # noqa: E402
from corpus.special_tokens import find_special_tokens  # noqa: E402
from corpus.vocabulary import find_tokenizer  # noqa: E402
from export_formats.folders import check_preset, export_hugging_face  # noqa: E402
from export_formats.hugging_face import load_head  # noqa: E402
from extras.encoders.language_model import MaskedLanguageModel  # noqa: E402
from task.model import build_models, language_model, load_backbone  # noqa: E402
from task.settings import Settings  # noqa: E402

NUMBERS = json.loads((Path(__file__).parent / "masked_numbers.json").read_text(encoding="utf-8"))
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz马的,."]
TOKENS = [*PIECES, *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")][:60]


def make_settings(**values) -> Settings:
    return Settings.model_construct(**{"max_length": 40, "dropout": 0.0, **values})


def write_model(folder: Path, kind: str, head: bool = True, **fields) -> Path:
    """Write a checkpoint of a kind, with the weights that transformers had for its numbers."""
    folder.mkdir(exist_ok=True)
    config = {**NUMBERS[kind]["config"], **fields}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    state = {name: seeded(name, tuple(shape)) for name, shape in NUMBERS[kind]["shapes"].items()}
    heads = ("cls.", "lm_", "vocab_", "generator_", "predictions.", "head.", "decoder.")
    save_file(
        {n: w for n, w in state.items() if head or not n.startswith(heads)},
        folder / "model.safetensors",
    )
    word_piece({token: number for number, token in enumerate(TOKENS)}).save(
        str(folder / "tokenizer.json")
    )
    return folder


def load(folder: Path):
    """Return the models that train.py would build for an encoder, with its head."""
    settings = make_settings(encoder=str(folder))
    built = build_models(load_backbone(settings, load_tokenizer(settings, [])), settings)
    load_head(language_model(built.training), settings.encoder)
    return built


def read_batch(kind: str) -> dict[str, tf.Tensor]:
    given = masked_peer.batch(kind)
    given["segment_ids"] = np.zeros_like(given["token_ids"])
    return {name: tf.constant(array, "int32") for name, array in given.items()}


def states(model, batch) -> np.ndarray:
    encoder = model.encoder
    outputs = encoder({tensor.name: batch[tensor.name] for tensor in encoder.inputs})
    return np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)


@pytest.mark.shown("[bert]", "[roberta]", "deberta_v3", "modernbert")
@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_are_those_of_transformers(kind, tmp_path, capsys):
    built, batch = load(write_model(tmp_path / kind, kind)), read_batch(kind)
    said = capsys.readouterr().out
    assert "anew" not in said and "warning" not in said
    expected = NUMBERS[kind]["losses"]
    found = np.asarray(built.training(batch)["token_loss"])
    print(f"{kind}: largest difference of a loss {np.abs(found - expected).max():.1e}")
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(built.inference(batch)["surprise"], expected, rtol=1e-4)
    clone = keras.models.clone_model(built.training)
    clone.set_weights(built.training.get_weights())
    np.testing.assert_allclose(clone(batch)["token_loss"], found, rtol=1e-6)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[dict, Path]:
    """A changed model of each kind, and the folder of their exports."""
    folder, found = tmp_path_factory.mktemp("exported"), {}
    for kind in KINDS:
        built = load(write_model(folder / f"{kind}_before", kind))
        random = np.random.default_rng(1)
        for weight in built.training.trainable_variables:  # as a training would change all
            weight.assign(weight + 0.05 * random.normal(size=weight.shape))
        found[kind] = built
        tokenizer = load_tokenizer(make_settings(encoder=str(folder / f"{kind}_before")), [])
        export_hugging_face(folder / kind, language_model(built.training), tokenizer)
    return found, folder


@pytest.mark.shown("[bert]", "[roberta]", "deberta_v3")
@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_read_back(kind, exported, capsys):
    built, folder = exported
    again, batch = load(folder / kind), read_batch(kind)
    assert "anew" not in capsys.readouterr().out
    expected = built[kind].training(batch)["token_loss"]
    np.testing.assert_allclose(again.training(batch)["token_loss"], expected, rtol=1e-4)
    # As the encoder of a project of another task.
    settings = make_settings(encoder=str(folder / kind))
    tokenizer = load_tokenizer(settings, [])
    assert tokenizer.encode("a cab").ids == [2, 5, *tokenizer.encode("cab").ids[1:]]
    model = language_model(built[kind].training)
    encoder = load_encoder(settings, tokenizer)
    outputs = encoder({tensor.name: batch[tensor.name] for tensor in encoder.inputs})
    found = np.asarray(outputs["sequence_output"] if isinstance(outputs, dict) else outputs)
    real = np.asarray(batch["padding_mask"]) > 0
    np.testing.assert_allclose(found[real], states(model, batch)[real], atol=1e-4)


@needs_peer
def test_transformers_computes_the_same_of_the_exports(exported):
    built, folder = exported
    program = (ROOT / "tests/masked_peer.py").read_text(encoding="utf-8")
    run_peer(program, ROOT / "tests", folder, "read")
    for kind in KINDS:
        peer, batch = np.load(folder / kind / "peer.npz"), read_batch(kind)
        model, real = language_model(built[kind].training), np.asarray(batch["padding_mask"]) > 0
        difference = np.abs(states(model, batch) - peer["states"])[real].max()
        losses = np.asarray(built[kind].training(batch)["token_loss"])
        print(
            f"{kind}: hidden states {difference:.1e}, {np.abs(losses - peer['losses']).max():.1e}"
        )
        assert difference < 1e-4
        np.testing.assert_allclose(losses, peer["losses"], rtol=1e-4)
        tokenizer = load_tokenizer(make_settings(encoder=str(folder / f"{kind}_before")), [])
        assert peer["tokens"].tolist() == tokenizer.encode("a cab").ids


ORIGINS = ("ernie", "roberta", "xlm_roberta", "camembert", "distilbert")


@pytest.mark.parametrize("kind", ORIGINS)
def test_an_export_has_the_family_and_the_names_that_were_read(kind, exported):
    _, folder = exported
    names = (f"{kind}_before", kind)
    read, made = (load_file(folder / name / "model.safetensors") for name in names)
    # A file may have no pooler; the row of ERNIE's tasks is part of its segments.
    shapes = {name: array.shape for name, array in made.items() if "pooler" not in name}
    left = [name for name in read if name not in shapes]
    assert shapes.items() <= {name: array.shape for name, array in read.items()}.items()
    assert [name for name in left if "task_type" not in name] == []
    configs = [json.loads((folder / name / "config.json").read_text("utf-8")) for name in names]
    for name in ("model_type", "max_position_embeddings", "architectures"):
        assert configs[0][name] == configs[1][name]
    if kind in ORIGINS[1:4]:
        assert configs[1]["pad_token_id"] == configs[0].get("pad_token_id", 1)


def test_a_head_of_roberta_has_its_own_activation(tmp_path, capsys):
    """With another activation in the layers, a BERT computes what was trained."""
    built = load(write_model(tmp_path / "a", "roberta", hidden_act="gelu_new"))
    tokenizer = load_tokenizer(make_settings(encoder=str(tmp_path / "a")), [])
    export_hugging_face(tmp_path / "made", language_model(built.training), tokenizer)
    assert json.loads((tmp_path / "made/config.json").read_text())["model_type"] == "bert"
    again, batch = load(tmp_path / "made"), read_batch("roberta")
    expected = built.training(batch)["token_loss"]
    np.testing.assert_allclose(again.training(batch)["token_loss"], expected, rtol=1e-5)


def test_a_run_keeps_a_model_of_any_family(tmp_path):
    built = load(write_model(tmp_path / "roberta", "roberta"))
    settings = make_settings(encoder=str(tmp_path / "roberta"))
    save_encoder(tmp_path, built.encoder, load_tokenizer(settings, []))
    restored = build_models(restore_encoder(tmp_path)[0], settings)
    assert isinstance(language_model(restored.training), MaskedLanguageModel)
    built.training.save_weights(tmp_path / "best.weights.h5")
    restored.training.load_weights(tmp_path / "best.weights.h5")
    batch = read_batch("roberta")
    found = restored.training(batch)["token_loss"]
    np.testing.assert_array_equal(found, built.training(batch)["token_loss"])


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("roberta", {"head": False}, "has no head of a language model"),
        ("roberta", {"hidden_act": "gelu_new"}, "another activation than its layers have"),
        (
            "modernbert",
            {"classifier_activation": "silu"},
            "another activation than its layers have",
        ),
        ("electra", {"tie_word_embeddings": False}, "by other embeddings than it reads"),
    ],
)
def test_a_head_that_does_not_fit_starts_anew(kind, changes, reason, tmp_path, capsys):
    built = load(write_model(tmp_path / kind, kind, **changes))
    assert f"{reason}: it starts anew." in " ".join(capsys.readouterr().out.split())
    assert not np.asarray(language_model(built.training).bias).any()


@pytest.mark.parametrize("objective", ["causal", "unilm"])
def test_other_objectives_are_for_bert(objective, tmp_path):
    settings = make_settings(
        encoder=str(write_model(tmp_path / "albert", "albert")), objective=objective
    )
    with pytest.raises(InputError, match='is a Albert: set objective = "masked"'):
        load_backbone(settings, load_tokenizer(settings, []))


def test_a_preset_is_a_bert(tmp_path):
    model = language_model(load(write_model(tmp_path / "albert", "albert")).training)
    with pytest.raises(InputError, match="writes a BERT, and this run trained a Albert"):
        check_preset(model.encoder)


# --- tokens ---


def byte_level() -> Tokenizer:
    """Return RoBERTa's kind of tokenizer: letters of bytes, a space belongs to a token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {token: number for number, token in enumerate([*special, *letters, "Ġa", "bc"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("b", "c")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(special)
    return tokenizer


def sentence_pieces() -> Tokenizer:
    """Return XLM-R's kind of tokenizer: only spaces separate words."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = ["▁", "▁a", "b", "c", "▁马", "马", "的", ",", "历", "史"]
    tokens = [(token, 0.0) for token in special] + [(piece, -1.0) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(tokens, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(special)
    return tokenizer


def test_special_tokens_of_roberta():
    special = find_special_tokens(byte_level())
    assert (special.pad, special.begin, special.end, special.mask) == (1, 0, 2, 4)
    assert special.is_special[:5].all() and not special.is_special[5:].any()
    assert special.sentence_ends[-1] == 2


def test_a_tokenizer_without_a_mask_is_refused():
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(InputError, match=r"has no .pad. or|\[PAD\] or <pad>.*\[MASK\] or <mask>"):
        find_special_tokens(tokenizer)


@pytest.mark.parametrize(
    ("tokenizer", "text", "words", "expected"),
    [
        (byte_level(), "bcb a,a 马a", "auto", ["bc b", "Ġa", ",", "a", "Ġ é © ¬", "a"]),
        (sentence_pieces(), "abc a,", "auto", ["▁a b c", "▁a", ","]),
        (sentence_pieces(), "马的 历史,", "spaces", ["▁马", "的", "▁ 历", "史", ","]),
        (sentence_pieces(), "马的 历史,", "auto", ["▁马", "的", "▁ 历 史", ","]),
    ],
)
def test_words_of_tokenizers_that_split_at_spaces(tokenizer, text, words, expected):
    [line] = encode_lines([text], tokenizer, words)
    found: list[list[str]] = []
    for token_id, begins in zip(line.token_ids, line.begins, strict=True):
        found += [[]] if begins else []
        found[-1].append(tokenizer.id_to_token(int(token_id)))
    assert [" ".join(tokens) for tokens in found] == expected


def test_pieces_of_other_vocabularies_become_a_text():
    tokens = sentence_pieces().encode("abc a,马").tokens
    text, spans = join_pieces(tokens)
    assert text == "<s> abc a,马</s>"
    assert [text[start:end] for start, end in spans][1:4] == ["a", "b", "c"]
    text, _ = join_pieces(byte_level().encode("bc a").tokens)
    assert text == "<s>bc a</s>"


def test_the_encoder_brings_its_own_tokens(tmp_path, capsys):
    folder = write_model(tmp_path / "roberta", "roberta")
    other = tmp_path / "other.json"
    word_piece({token: number for number, token in enumerate(PIECES)}).save(str(other))
    settings = make_settings(encoder=str(folder), tokenizer=str(other))
    found = find_tokenizer(settings)
    assert found.get_vocab() == {token: number for number, token in enumerate(TOKENS)}
    assert "has others, and is not used" in capsys.readouterr().out
    settings = make_settings(encoder=str(folder), tokenizer=str(tmp_path / "none.json"))
    assert find_tokenizer(settings).get_vocab() == found.get_vocab()
    assert not (tmp_path / "none.json").exists()
