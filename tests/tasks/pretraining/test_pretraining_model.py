"""The language model: its loss, its masks, its scores; what is exported, as others compute it."""

import json
import os

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from conftest import use_template
from peer import needs_peer, run_peer
from scipy import special
from small_models import word_piece

pytestmark = pytest.mark.slow

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.encoders.encoder import load_encoder, load_tokenizer  # noqa: E402
from corpus.pieces import in_words, join_pieces  # noqa: E402
from corpus.special_tokens import find_special_tokens  # noqa: E402
from corpus.texts import PaddedTexts  # noqa: E402
from export_formats import folders  # noqa: E402
from export_formats.folders import check_preset, export_hugging_face, export_preset  # noqa: E402
from export_formats.hugging_face import load_head, name_weights  # noqa: E402
from inspection.errors import find_errors  # noqa: E402
from task.masking import NO_TOKEN, lay_out  # noqa: E402
from task.metrics import score  # noqa: E402
from task.model import TokenScores, build_models, language_model, load_backbone  # noqa: E402
from task.settings import Settings  # noqa: E402

LETTERS = [chr(ord("a") + index) for index in range(26)]
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "1", "9", "的", "马"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]
TEXTS = ["Marie was born in Warsaw, in 1991.", "René [MASK] painted.", "马的 a", "b"]
LENGTH = 24


def make_settings(**values) -> Settings:
    small = {"tiny_layers": 2, "tiny_width": 128, "max_length": LENGTH, "dropout": 0.0}
    return Settings.model_construct(**{**small, **values})


@pytest.fixture(scope="module")
def tokenizer():
    return word_piece({token: number for number, token in enumerate(VOCABULARY)})


def build(tokenizer, **values):
    """Return settings and both models, with weights that are nowhere near zero."""
    settings = make_settings(**values)
    models = build_models(load_backbone(settings, tokenizer), settings)
    training, inference = models.training, models.inference
    random = np.random.default_rng(1)
    for weight in training.trainable_variables:
        scale = 0.1 if len(weight.shape) > 1 else 0.05
        weight.assign(weight + scale * random.normal(size=weight.shape))
    return settings, training, inference


def make_batch(objective="masked", rows=6, seed=2) -> dict[str, np.ndarray]:
    """Return a batch of random tokens."""
    random = np.random.default_rng(seed)
    sizes = random.integers(6, LENGTH + 1, rows)[:, None]
    places = np.arange(LENGTH)
    mask = (places < sizes).astype(np.int32)
    ids = np.where(mask, random.integers(5, len(VOCABULARY), (rows, LENGTH)), 0).astype(np.int32)
    ids[:, 0] = 2
    ids[places == sizes - 1] = 3
    block = PaddedTexts(ids, np.ones_like(ids), mask)
    words = word_piece({token: number for number, token in enumerate(VOCABULARY)})
    return lay_out(block, make_settings(objective=objective), find_special_tokens(words), random)


def logits_of(training, batch) -> np.ndarray:
    layer = training.get_layer("language_model")
    names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
    return np.asarray(layer(**{name: tf.constant(batch[name]) for name in names}))


@pytest.mark.parametrize("objective", ["masked", "causal", "unilm"])
def test_loss_and_scores_are_those_of_numpy(tokenizer, objective):
    _, training, inference = build(tokenizer, objective=objective)
    batch = make_batch(objective)
    logits, labels = logits_of(training, batch), batch["masked_labels"]
    used = labels != NO_TOKEN
    surprise = special.logsumexp(logits, axis=-1) - np.take_along_axis(
        logits, np.maximum(labels, 0)[..., None], axis=-1
    ).squeeze(-1)
    expected = (surprise * used).sum(axis=1)
    found = training(batch)["token_loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    outputs = inference(batch)
    np.testing.assert_allclose(outputs["surprise"], expected, rtol=1e-4)
    right = ((logits.argmax(axis=-1) == labels) & used).sum(axis=1)
    np.testing.assert_array_equal(outputs["correct"], right)
    best = np.argsort(-logits, axis=-1)[..., :3]
    np.testing.assert_array_equal(np.asarray(outputs["tokens"])[used], best[used])
    found = score(np.stack([right, used.sum(axis=1), expected], axis=1))
    assert found["accuracy"] == pytest.approx(right.sum() / used.sum())
    assert found["perplexity"] == pytest.approx(np.exp(expected.sum() / used.sum()), rel=1e-4)


def test_top_token_counts_only_where_something_is_predicted():
    logits = tf.constant(np.eye(3, dtype="float32")[None])
    outputs = TokenScores(2)(logits, tf.constant([[0, 2, -1]]))
    assert outputs["correct"].numpy().tolist() == [1.0]


def changed_predictions(training, batch, place: int) -> np.ndarray:
    """Return which slots see a change of the token at a place, for the first example."""
    other = {name: array.copy() for name, array in batch.items()}
    other["token_ids"][:, place] = np.where(batch["token_ids"][:, place] == 9, 10, 9)
    return np.abs(logits_of(training, batch) - logits_of(training, other)).max(axis=-1) > 1e-6


def test_causal_sees_nothing_that_comes_later(tokenizer):
    _, training, _ = build(tokenizer, objective="causal")
    batch = make_batch("causal")
    for place in (1, 4):
        changed = changed_predictions(training, batch, place)
        assert not changed[:, :place].any() and changed[:, place : place + 2].all()


def test_unilm_sees_the_first_part_and_what_comes_before(tokenizer):
    _, training, _ = build(tokenizer, objective="unilm")
    batch = make_batch("unilm", rows=12)
    # The last token of the first part.
    first = ((batch["segment_ids"] == 0) & (batch["padding_mask"] > 0)).sum(axis=1) - 1
    place = 4
    changed = changed_predictions(training, batch, place)
    inside = first >= place
    assert inside.any() and (~inside).any()
    assert changed[inside][:, :5].all(), "the first part is read both ways"
    assert not changed[~inside][:, :place].any(), "the second is not"


def test_masked_sees_everything_but_padding(tokenizer):
    _, training, _ = build(tokenizer)
    batch = make_batch()
    used = batch["masked_labels"] != NO_TOKEN
    assert changed_predictions(training, batch, 1)[used].all()
    padded = {name: array.copy() for name, array in batch.items()}
    padded["token_ids"][batch["padding_mask"] == 0] = 7
    np.testing.assert_allclose(logits_of(training, padded), logits_of(training, batch), atol=1e-5)


def test_the_table_that_scores_tokens_is_the_one_that_reads_them(tokenizer):
    _, training, _ = build(tokenizer)
    layer, batch = training.get_layer("language_model"), make_batch(rows=1)
    paths = [variable.path for variable in training.trainable_variables]
    assert len(paths) == len(set(paths))
    shape = (len(VOCABULARY), 128)
    assert [tuple(v.shape) for v in training.trainable_variables].count(shape) == 1
    before = logits_of(training, batch)
    table = layer.encoder.token_embedding.embeddings
    # Nothing reads it, so only its score can change.
    unused = next(n for n in range(5, len(VOCABULARY)) if n not in batch["token_ids"])
    rows = np.array(table)
    rows[unused] += np.linspace(-1, 1, 128)
    table.assign(rows)
    moved = np.abs(logits_of(training, batch) - before).max(axis=(0, 1))
    assert np.delete(moved, unused).max() == 0
    assert moved[unused] > 0.1
    before = logits_of(training, batch)
    layer.bias.assign_add(np.arange(len(VOCABULARY)))
    np.testing.assert_allclose(
        logits_of(training, batch) - before,
        np.broadcast_to(np.arange(len(VOCABULARY)), before.shape),
        atol=1e-4,
    )


@pytest.mark.parametrize("objective", ["masked", "causal", "unilm"])
def test_models_are_cloned_and_saved(tokenizer, objective, tmp_path):
    _, training, inference = build(tokenizer, objective=objective)
    batch = make_batch(objective)
    clone = keras.models.clone_model(training)
    clone.set_weights(training.get_weights())
    expected = training(batch)["token_loss"]
    np.testing.assert_allclose(clone(batch)["token_loss"], expected, rtol=1e-6)
    inference.save(tmp_path / "inference.keras")
    loaded = keras.models.load_model(tmp_path / "inference.keras")
    np.testing.assert_allclose(loaded(batch)["surprise"], expected, rtol=1e-5)


# --- export ---

# Writes hidden states and logits of exported models: python -c STATES FOLDER INPUTS.npz OUT.npz
STATES = """
import json, sys
import numpy, torch, transformers
folder, out = sys.argv[1], {}
inputs = {name: torch.tensor(array) for name, array in numpy.load(sys.argv[2]).items()}
for kind in ("masked", "causal"):
    name = json.load(open(f"{folder}/{kind}/config.json"))["architectures"][0]
    model, found = getattr(transformers, name).from_pretrained(
        f"{folder}/{kind}", output_loading_info=True, attn_implementation="eager"
    )
    assert not found["missing_keys"], found
    encoder = transformers.AutoModel.from_pretrained(
        f"{folder}/{kind}", attn_implementation="eager"
    )
    with torch.no_grad():
        out[f"{kind}/logits"] = model.eval()(**inputs).logits.numpy()
        out[f"{kind}/states"] = encoder.eval()(**inputs).last_hidden_state.numpy()
tokenizer = transformers.AutoTokenizer.from_pretrained(f"{folder}/masked")
texts = json.loads(sys.argv[4])
out |= {f"ids/{n}": numpy.array(tokenizer(text)["input_ids"]) for n, text in enumerate(texts)}
assert tokenizer.mask_token == "[MASK]" and tokenizer.pad_token_id == 0
numpy.savez(sys.argv[3], **out)
"""


@pytest.fixture(scope="module")
def exported(tokenizer, tmp_path_factory):
    """Models of two objectives, and the folder that they were exported to."""
    folder, models = tmp_path_factory.mktemp("exported"), {}
    for objective in ("masked", "causal"):
        _, training, _ = build(tokenizer, objective=objective)
        models[objective] = training.get_layer("language_model")
        export_hugging_face(folder / objective, models[objective], tokenizer)
    export_preset(folder / "preset", models["masked"].encoder, tokenizer)
    return models, folder


def states_of(model, batch) -> np.ndarray:
    return np.asarray(
        model.read(*(tf.constant(batch[n]) for n in ("token_ids", "segment_ids", "padding_mask")))
    )


@needs_peer
def test_transformers_computes_the_same(exported, tokenizer, tmp_path):
    models, folder = exported
    batch = make_batch()
    real = batch["padding_mask"] > 0
    inputs = {
        "input_ids": batch["token_ids"].astype("int64"),
        "attention_mask": batch["padding_mask"].astype("int64"),
    }
    np.savez(tmp_path / "inputs.npz", **inputs)
    run_peer(STATES, folder, tmp_path / "inputs.npz", tmp_path / "out.npz", json.dumps(TEXTS))
    out = np.load(tmp_path / "out.npz")
    everywhere = np.broadcast_to(np.arange(LENGTH), batch["token_ids"].shape)
    for objective, model in models.items():
        states = np.abs(states_of(model, batch) - out[f"{objective}/states"])[real].max()
        logits = model(
            tf.constant(batch["token_ids"]),
            tf.constant(batch["segment_ids"]),
            tf.constant(batch["padding_mask"]),
            tf.constant(everywhere),
        )
        scores = np.abs(np.asarray(logits) - out[f"{objective}/logits"])[real].max()
        print(f"{objective}: hidden states {states:.1e}, logits {scores:.1e}")
        assert states < 1e-4 and scores < 1e-4
    for number, text in enumerate(TEXTS):
        assert out[f"ids/{number}"].tolist() == tokenizer.encode(text).ids


def test_projects_and_keras_hub_read_it_back(exported, tokenizer):
    models, folder = exported
    rights = {path.stat().st_mode & 0o777 for path in (folder / "masked").iterdir()}
    assert len(rights) == 1, "whoever may read the config may read the weights"
    model, batch = models["masked"], make_batch()
    expected, real = states_of(model, batch), batch["padding_mask"] > 0
    inputs = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    for place in ("masked", "preset"):
        settings = make_settings(encoder=str(folder / place))
        words = load_tokenizer(settings, [])
        encoder = load_encoder(settings, words)
        for text in (TEXTS[0], TEXTS[2]):
            assert words.encode(text).ids == tokenizer.encode(text).ids
        found = encoder(inputs)["sequence_output"]
        np.testing.assert_allclose(np.asarray(found)[real], expected[real], atol=1e-5)
        plain = keras_hub.models.BertBackbone.from_preset(str(folder / place))
        assert type(plain) is keras_hub.models.BertBackbone
        found = plain(inputs)["sequence_output"]
        np.testing.assert_allclose(np.asarray(found)[real], expected[real], atol=1e-5)
        own = keras_hub.models.BertTokenizer.from_preset(str(folder / place))
        ids = np.asarray(own(TEXTS[0])).tolist()
        assert ids == tokenizer.encode(TEXTS[0], add_special_tokens=False).ids


def test_a_training_goes_on_from_it_with_its_head(exported, tokenizer, capsys):
    models, folder = exported
    settings = make_settings(encoder=str(folder / "masked"))
    training = build_models(load_backbone(settings, tokenizer), settings).training
    capsys.readouterr()  # the extra `encoders` says that an encoder has no use for the head
    load_head(language_model(training), settings.encoder)
    batch = make_batch()
    went_on = training.get_layer("language_model")
    for name, array in name_weights(models["masked"]).items():
        np.testing.assert_array_equal(name_weights(went_on)[name], array, err_msg=name)
    assert went_on.encoder.gelu is models["masked"].encoder.gelu
    names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
    one, other = (
        model(**{n: tf.constant(batch[n]) for n in names}) for model in (went_on, models["masked"])
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert capsys.readouterr().out == ""


def test_other_words_than_those_of_the_encoder_are_refused(exported):
    _, folder = exported
    others = word_piece({t: n for n, t in enumerate([*VOCABULARY[:-1], "zzz"])})
    with pytest.raises(InputError, match="other tokens than"):
        load_backbone(make_settings(encoder=str(folder / "masked")), others)


def test_exact_gelu_is_no_preset(tokenizer):
    from core.encoders.encoder import BertEncoder

    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 8, "intermediate_dim": 8}
    encoder = BertEncoder(vocabulary_size=len(VOCABULARY), max_sequence_length=8, **sizes)
    with pytest.raises(InputError, match="trained with the exact one"):
        check_preset(encoder)


def test_export_is_whole_or_not_there(exported, tokenizer, tmp_path, monkeypatch):
    models, _ = exported

    def fail(*arguments, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "save", fail)
    with pytest.raises(OSError):
        export_hugging_face(tmp_path / "encoder", models["masked"], tokenizer)
    assert os.listdir(tmp_path) == []


def test_pieces_become_a_text():
    text, spans = join_pieces(["[CLS]", "born", "in", "war", "##saw", "玛", "拉", "a", "."])
    assert text == "[CLS] born in warsaw玛拉a ."
    assert [text[start:end] for start, end in spans][2:6] == ["in", "war", "saw", "玛"]


def test_a_predicted_row_that_is_no_token_has_no_name(tokenizer):
    """Models may have more rows than their tokenizers have tokens."""
    row = {"token_ids": [2, 11, 3], "padding_mask": [1, 1, 1]}
    row = {name: np.array(values) for name, values in row.items()}
    row |= {"masked_positions": np.array([0, 1]), "masked_labels": np.array([11, 3])}
    found = in_words(row, np.array([[11, 900], [901, 3]]), tokenizer, "causal")
    assert [hidden["predicted"] for hidden in found["hidden"]] == [["a", ""], ["", "[SEP]"]]
    record = {"id": "0", "statistics": [1.0, 2.0, 0.5], **found}
    assert find_errors([record])[0].ranks == [1, 2]


def test_scores_of_a_model_that_knows_nothing_are_valid_json():
    found = score(np.array([[0, 1, 1e9]]))
    assert found["perplexity"] > 1e300
    json.dumps(found, allow_nan=False)
