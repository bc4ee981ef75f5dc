"""Replaced tokens with ELECTRA and DeBERTa-v3: the losses of transformers, batches and exports.

replaced_numbers.json is written by tests/replaced_peer.py. Where a Python has torch and
transformers, see tests/peer.py, the exported models are read there too.
"""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import replaced_peer
import tensorflow as tf
from conftest import ROOT, use_template
from encoder_peer import seeded
from peer import needs_peer, run_peer
from replaced_peer import KINDS
from safetensors.numpy import load_file, save_file
from small_models import word_piece

pytestmark = pytest.mark.slow

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.encoders.encoder import load_tokenizer, restore_encoder, save_encoder  # noqa: E402
from corpus.encode import encode_texts  # noqa: E402
from corpus.special_tokens import find_special_tokens  # noqa: E402
from corpus.texts import from_examples  # noqa: E402
from export_formats.folders import export_hugging_face  # noqa: E402
from export_formats.hugging_face import load_head  # noqa: E402
from extras.encoders import generator  # noqa: E402
from extras.encoders.discriminator import CLASSES  # noqa: E402
from inspection.errors import find_errors  # noqa: E402
from task.data import HeldOutGenerator, token_weights  # noqa: E402
from task.evaluation import Prediction, evaluate  # noqa: E402
from task.masking import lay_out  # noqa: E402
from task.model import build_models, language_model, load_backbone  # noqa: E402
from task.settings import Settings  # noqa: E402

HERE = Path(__file__).parent
NUMBERS = json.loads((HERE / "replaced_numbers.json").read_text(encoding="utf-8"))
MASKED = json.loads((HERE / "masked_numbers.json").read_text(encoding="utf-8"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *",.!"]
TOKENS = [*PIECES, *(f"##{letter}" for letter in LETTERS)]
ENCODING = {"short_length": 8, "short_share": 0.0, "words": "auto", "packing": True}


def make_settings(generator: str = "", **values) -> Settings:
    own = {"objective": "replaced", "max_length": 40, "dropout": 0.0, **values}
    return with_tables(Settings)(**own, encoders={"generator": generator})


def write_model(folder: Path, kind: str, made: dict | None = None, **fields) -> Path:
    """Write a checkpoint of a kind, with the weights that transformers had for its numbers."""
    made = made or NUMBERS[kind]
    folder.mkdir()
    config = json.dumps({**made["config"], **fields})
    (folder / "config.json").write_text(config, encoding="utf-8")
    state = {name: seeded(name, tuple(shape)) for name, shape in made["shapes"].items()}
    save_file(state, folder / "model.safetensors")
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    word_piece(vocabulary).save(str(folder / "tokenizer.json"))
    return folder


def load(folder: Path):
    """Return the models that train.py would build for an encoder, with its head."""
    settings = make_settings(encoder=str(folder))
    built = build_models(load_backbone(settings, load_tokenizer(settings, [])), settings)
    load_head(language_model(built.training), settings.encoder)
    return built


def read_batch(kind: str) -> dict[str, tf.Tensor]:
    return {n: tf.constant(array, "int32") for n, array in replaced_peer.batch(kind).items()}


def mean_loss(built, kind: str) -> float:
    """Return the loss of a batch as a training computes it."""
    batch = replaced_peer.batch(kind)
    weights = token_weights(batch, len(batch["token_ids"]))
    return float(np.sum(weights * np.asarray(built.training(read_batch(kind))["token_loss"])))


def scores_of(built, kind: str) -> np.ndarray:
    """Return z `[batch, length]`, whose sigmoid says that a token was replaced."""
    names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
    given = {name: read_batch(kind)[name] for name in names}
    logits = np.asarray(language_model(built.training)(**given))
    np.testing.assert_array_equal(logits[..., 0], 0)
    return logits[..., 1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_are_those_of_transformers(kind, tmp_path, capsys):
    built = load(write_model(tmp_path / kind, kind))
    assert "warning" not in capsys.readouterr().out
    found, expected = mean_loss(built, kind), NUMBERS[kind]["loss"]
    print(f"{kind}: difference of the loss {abs(found / expected - 1):.1e}")
    assert found == pytest.approx(expected, rel=1e-5)
    # In closed form: log(1 + e^z) - label z, over all tokens of texts.
    batch, z = replaced_peer.batch(kind), scores_of(built, kind).astype(np.float64)
    used, labels = batch["padding_mask"] > 0, batch["masked_labels"]
    every = np.logaddexp(0, z) - labels * z
    assert found == pytest.approx(every[used].mean(), rel=1e-5)
    outputs = built.inference(read_batch(kind))
    np.testing.assert_allclose(outputs["surprise"], np.sum(every * used, axis=1), rtol=1e-4)
    right = ((z > 0) == (labels == 1)) & used
    np.testing.assert_array_equal(outputs["correct"], right.sum(axis=1))
    clone = keras.models.clone_model(built.training)
    clone.set_weights(built.training.get_weights())
    again = clone(read_batch(kind))["token_loss"]
    np.testing.assert_allclose(again, built.training(read_batch(kind))["token_loss"], rtol=1e-6)


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


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_goes_on(kind, exported):
    built, folder = exported
    again = load(folder / kind)
    assert mean_loss(again, kind) == pytest.approx(mean_loss(built[kind], kind), rel=1e-6)
    read, made = (
        load_file(folder / name / "model.safetensors") for name in (f"{kind}_before", kind)
    )
    shapes = [{name: array.shape for name, array in one.items()} for one in (made, read)]
    assert shapes[0] == shapes[1]
    config = json.loads((folder / kind / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == [KINDS[kind][0]]
    assert config["model_type"] == NUMBERS[kind]["config"]["model_type"]


@needs_peer
def test_transformers_computes_the_same_of_the_exports(exported):
    built, folder = exported
    program = (ROOT / "tests/replaced_peer.py").read_text(encoding="utf-8")
    run_peer(program, ROOT / "tests", folder, "read")
    for kind in KINDS:
        peer, real = np.load(folder / kind / "peer.npz"), replaced_peer.batch(kind)["padding_mask"]
        z, used = scores_of(built[kind], kind), real > 0
        print(f"{kind}: logits {np.abs(z - peer['logits'])[used].max():.1e}")
        np.testing.assert_allclose(z[used], peer["logits"][used], rtol=1e-5, atol=2e-5)
        assert mean_loss(built[kind], kind) == pytest.approx(float(peer["loss"]), rel=1e-5)
        tokenizer = load_tokenizer(make_settings(encoder=str(folder / kind)), [])
        assert peer["tokens"].tolist() == tokenizer.encode("a cab").ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_keeps_a_discriminator(kind, exported, tmp_path):
    built = exported[0][kind]
    save_encoder(tmp_path, built.encoder, word_piece({t: n for n, t in enumerate(TOKENS)}))
    restored = build_models(restore_encoder(tmp_path)[0], make_settings())
    built.inference.save_weights(tmp_path / "best.weights.h5")
    restored.inference.load_weights(tmp_path / "best.weights.h5")
    assert mean_loss(restored, kind) == mean_loss(built, kind)


# --- batches ---


def make_texts(tokenizer, lines: int = 400):
    """Return texts in which `a` is ten times as frequent as `b`, their longest length."""
    texts = encode_texts(
        ["a a a a a a a a a a b."] * lines, tokenizer, {**ENCODING, "max_length": 40}
    )
    found = from_examples(texts)
    return found, int(found.lengths.max())


def padded_batch(texts, longest: int, settings: Settings, special, seed: int = 0):
    padded = texts.pad(np.arange(len(texts)), longest, special)
    return padded, lay_out(padded, settings, special, np.random.default_rng(seed))


def test_tokens_are_replaced_by_their_frequency(tmp_path):
    tokenizer = word_piece({token: number for number, token in enumerate(TOKENS)})
    special, settings = find_special_tokens(tokenizer), make_settings(mask_rate=0.3)
    texts, longest = make_texts(tokenizer)
    padded, batch = padded_batch(texts, longest, settings, special)
    original, labels = padded.token_ids, batch["masked_labels"]
    changed = batch["token_ids"] != original
    np.testing.assert_array_equal(labels == 1, changed)
    np.testing.assert_array_equal(labels == -1, padded.padding_mask == 0)
    assert not changed[special.is_special[original]].any()
    # Of the drawn tokens 10 in 12 are `a`; those drawn for themselves are original.
    a, b, end = (tokenizer.token_to_id(token) for token in "ab.")
    shares = [np.mean(batch["token_ids"][(original == b) & changed] == t) for t in (a, end)]
    assert shares == pytest.approx([10 / 11, 1 / 11], abs=0.08)
    share = np.mean(changed[original == b])
    assert share == pytest.approx(0.3 * 11 / 12, abs=0.08)
    # Other draws, other tokens; the same draws, the same tokens.
    _, again = padded_batch(texts, longest, settings, special)
    _, other = padded_batch(texts, longest, settings, special, seed=1)
    np.testing.assert_array_equal(batch["token_ids"], again["token_ids"])
    assert (batch["token_ids"] != other["token_ids"]).any()


def test_a_generator_replaces_tokens(tmp_path):
    """Its draws have the probabilities of its softmax, and special tokens are never drawn."""
    folder = write_model(tmp_path / "generator", "electra", MASKED["electra"], vocab_size=60)
    encoder = write_model(tmp_path / "encoder", "electra")
    for one in (folder, encoder):
        word_piece({t: n for n, t in enumerate(TOKENS)}).save(str(one / "tokenizer.json"))
    settings = make_settings(str(folder), encoder=str(encoder), mask_rate=0.3)
    tokenizer = load_tokenizer(settings, [])
    special = find_special_tokens(tokenizer)
    texts, longest = make_texts(tokenizer, 12)
    padded, batch = padded_batch(texts, longest, settings, special)
    changed = batch["token_ids"] != padded.token_ids
    assert changed.any() and not special.is_special[batch["token_ids"][changed]].any()
    np.testing.assert_array_equal(batch["masked_labels"] == 1, changed)
    _, again = padded_batch(texts, longest, settings, special)
    np.testing.assert_array_equal(batch["token_ids"], again["token_ids"])
    # One text many times, with one hidden token, against the softmax of the masked language model.
    count = 3000
    hidden = np.zeros((count, longest), bool)
    hidden[:, 3] = True
    one = type(padded)(
        *(np.repeat(a[:1], count, axis=0) for a in (padded.token_ids, padded.word_starts)),
        np.repeat(padded.padding_mask[:1], count, axis=0),
    )
    drawn = generator.draw_tokens(one, hidden, settings, special, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, :3], one.token_ids[:, :3])
    np.testing.assert_array_equal(drawn[:, 4:], one.token_ids[:, 4:])
    fill = generator.load_generator(str(folder), str(encoder), 40)
    masked = np.where(hidden, special.mask, one.token_ids)[:1]
    given = (masked, 0 * masked, one.padding_mask[:1], np.array([[3]]))
    logits = fill(*(tf.constant(array, tf.int32) for array in given)).numpy()[0, 0, : len(TOKENS)]
    chances = np.where(special.is_special, 0, np.exp(logits.astype(float) - logits.max()))
    chances /= chances.sum()
    found = np.bincount(drawn[:, 3], minlength=len(TOKENS)) / count
    assert np.abs(found - chances).max() < 4 * np.sqrt(0.25 / count)
    assert chances.max() < 0.9, "more than one token is likely"


def test_the_report_shows_replaced_tokens_and_those_taken_for_such():
    tokenizer = word_piece({token: number for number, token in enumerate(TOKENS)})
    special, settings = find_special_tokens(tokenizer), make_settings(mask_rate=0.3)
    texts, _ = make_texts(tokenizer, 6)
    batches = HeldOutGenerator(texts, special, settings)
    labels = batches.layout["masked_labels"]
    best = np.stack([labels == 1, labels != 1], axis=-1).astype(int)
    row, place = np.argwhere(labels == 0)[5]
    best[row, place] = [1, 0]  # an original token that is taken for a replaced one
    used = (labels >= 0).sum(axis=1)
    predictions = [Prediction((float(n), float(n), 0.0), best[k]) for k, n in enumerate(used)]
    found = evaluate(batches, predictions, tokenizer, {"file": "x"}, shown=1)
    records = found.predictions
    assert found.scores["accuracy"] == 1.0
    shown = [hidden for record in records for hidden in record["hidden"]]
    assert len(shown) == (labels == 1).sum() + 1
    assert [h["label"] for h in shown].count("original") == 1
    assert all(set(h["predicted"]) == set(CLASSES) for h in shown)
    kinds = [item.kind for report in find_errors(records) for item in report.items]
    assert kinds.count("missed") == 1 and kinds.count("correct") == (labels == 1).sum()


# --- refused ---


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("roberta", "goes on from an ELECTRA or a DeBERTa-v3, and .*roberta is neither"),
        ("bert", "goes on from an ELECTRA or a DeBERTa-v3"),
        ("electra", r"electra has no discriminator \(discriminator_predictions"),
        ("deberta_v2", r"deberta_v2 has no discriminator \(mask_predictions"),
    ],
)
def test_a_folder_without_a_discriminator(kind, message, tmp_path):
    """A generator, a masked language model, or another family."""
    folder = write_model(tmp_path / kind, kind, MASKED[kind])
    with pytest.raises(InputError, match=message):
        load(folder)


def test_a_new_encoder_has_no_discriminator():
    settings = make_settings(encoder="tiny")
    with pytest.raises(InputError, match="and tiny is neither"):
        load_backbone(settings, word_piece({token: n for n, token in enumerate(TOKENS)}))


def test_what_is_no_generator(tmp_path):
    encoder = write_model(tmp_path / "encoder", "electra")
    with pytest.raises(InputError, match="has no head of a language model: name the folder of a"):
        generator.load_generator(str(encoder), str(encoder), 40)
    bert = write_model(tmp_path / "bert", "bert", MASKED["bert"])
    with pytest.raises(InputError, match="is not a generator"):
        generator.load_generator(str(bert), str(encoder), 40)
    made = write_model(tmp_path / "generator", "electra", MASKED["electra"])
    with pytest.raises(InputError, match="reads 66 tokens at most: set max_length = 66"):
        generator.load_generator(str(made), str(encoder), 67)
    other = {token: number for number, token in enumerate([*PIECES, "x1"])}
    word_piece(other).save(str(made / "tokenizer.json"))
    with pytest.raises(InputError, match="has other tokens than"):
        generator.load_generator(str(made), str(encoder), 40)


def test_a_generator_is_for_this_objective():
    with pytest.raises(ValueError, match='replaces tokens for objective = "replaced"'):
        make_settings("folder", objective="masked")
