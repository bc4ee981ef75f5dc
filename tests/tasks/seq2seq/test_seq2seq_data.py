"""Tokenizers that give texts back, blocks of static shape, weights of tokens, the prefix mask."""

import hashlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT, use_template
from scipy import special
from small_models import word_piece
from tokenizers import BertWordPieceTokenizer, Tokenizer

PROJECT = use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.encoders.encoder import BertEncoder  # noqa: E402
from core.layers.language_model import TokenLoss, prefix_mask  # noqa: E402
from generation.encoding import encode, encode_sources  # noqa: E402
from generation.spaces import close_gaps  # noqa: E402
from generation.texts import decode_texts, read_allowed  # noqa: E402
from generation.tokenizers import (  # noqa: E402
    find_target_tokens,
    keep_used_tokens,
    train_text_tokenizer,
)
from inspection import checks  # noqa: E402
from inspection.checks import (  # noqa: E402
    find_low_oracle,
    find_reach_faults,
    find_unspaced_targets,
    measure_reach,
)
from score import read_lines  # noqa: E402
from task import loading  # noqa: E402
from task.data import NO_TOKEN, PairGenerator, SourceGenerator  # noqa: E402
from task.loading import keep_rows  # noqa: E402
from task.model import build_models, find_positions  # noqa: E402
from task.records import Example, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

INPUTS = ("token_ids", "segment_ids", "padding_mask")
WORDS = [
    "Ada",
    "met",
    "Ravi",
    "at",
    "18:30",
    "in",
    "Torvik,",
    "for",
    "£20-25!",
    "re\u0301sume\u0301",
]
ODD = [
    " leads", "trails ", "two  spaces", "\ttab\nline", "[SEP] [CLS]", "𝔘🚀👩\u200d🔬", "e\u0301 é",
    "你好 world，再见。", "كتاب", "it's 3.5-4 %", "<0x41>",
]  # fmt: skip


def make_settings(**values) -> Settings:
    return Settings.model_construct(**values)


def make_texts(seed: int, count: int = 60) -> list[str]:
    random = np.random.default_rng(seed)
    english = [" ".join(random.choice(WORDS, random.integers(2, 12))) for _ in range(count)]
    chinese = ["".join(random.choice(list("我们在岚州开会，很好。12"), 9)) for _ in range(count)]
    return english + chinese


@pytest.fixture(scope="module")
def tokenizer():
    return train_text_tokenizer(make_texts(0), 600)


def test_texts_come_back_as_they_were(tokenizer):
    texts = make_texts(1) + ODD
    assert decode_texts(tokenizer, list(encode(tokenizer, texts))) == texts
    unknown = tokenizer.token_to_id("[UNK]")
    assert not any(unknown in ids for ids in encode(tokenizer, texts))


# What stands for a space, what escapes it, and what follows either there.
HOSTILE = list("\u2581\uffff01 ab岚[<>\ufffd\ufeff\u2028\0\r\n\u0301")


def test_whatever_a_text_holds_comes_back(tokenizer):
    """The mark of a space, too, which a text may hold itself."""
    random = np.random.default_rng(7)
    texts = ["".join(random.choice(HOSTILE, random.integers(0, 12))) for _ in range(2000)]
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    texts += [every[start : start + 999] for start in range(0, len(every), 999)]
    for trained in (tokenizer, train_text_tokenizer(make_texts(0) + texts[:2000], 900)):
        saved = Tokenizer.from_str(trained.to_str())
        assert decode_texts(saved, list(encode(saved, texts))) == texts


def test_names_have_the_same_tokens_wherever_they_stand(tokenizer):
    tokens = tokenizer.encode("岚州，岚州12开会在岚州。", add_special_tokens=False).tokens
    assert [token for token in tokens if token in "岚州"] == ["岚", "州"] * 3


TRAIN = """
import hashlib, json, sys
sys.path[:0] = sys.argv[1:]
from generation.tokenizers import train_text_tokenizer
tokenizer = train_text_tokenizer(json.load(sys.stdin), 600)
print(hashlib.sha256(tokenizer.to_str().encode()).hexdigest())
"""


@pytest.mark.shown("[2]")
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_training_a_tokenizer_again_gives_the_same_bytes(tokenizer, seed):
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(ROOT / "templates"), str(PROJECT)],
        input=json.dumps(make_texts(0)),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def encoder_of(rows: int) -> SimpleNamespace:
    """Return a stub of an encoder with a number of rows in its token table."""
    return SimpleNamespace(token_embedding=SimpleNamespace(input_dim=rows))


def test_tokens_that_frame_a_target(tokenizer):
    size = tokenizer.get_vocab_size()
    tokens = find_target_tokens(tokenizer, encoder_of(size + 3))
    names = [tokenizer.id_to_token(token) for token in (tokens.begin, tokens.end)]
    assert names == ["[CLS]", "[SEP]"]
    assert {tokenizer.token_to_id(t) for t in ("[PAD]", "[UNK]", "[CLS]", "[MASK]")} | {
        size, size + 1, size + 2
    } == set(tokens.never)  # fmt: skip


def word_piece_of(texts):
    """A WordPiece vocabulary of whole words, characters, and pieces that no text uses."""
    words = {word for text in texts for word in text.lower().split()}
    words |= {c for word in words for c in word} | {f"##{c}" for word in words for c in word}
    listed = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words)]
    listed += [f"nobody{number}" for number in range(50)]
    return word_piece({token: number for number, token in enumerate(listed)})


def test_used_tokens_are_kept_and_renumbered():
    texts = [text for text in make_texts(0) if text.isascii()][:30]
    whole = word_piece_of(texts)
    smaller, kept = keep_used_tokens(whole, texts)
    assert smaller.get_vocab_size() == len(kept) < whole.get_vocab_size() - 40
    for text in [*texts, "Nora met Zoe at 7"]:
        old, new = whole.encode(text), smaller.encode(text)
        assert old.tokens == new.tokens
        assert [kept[number] for number in new.ids] == old.ids
    assert smaller.encode("", "").tokens == whole.encode("", "").tokens

    # The rows of the embedding follow: the smaller encoder reads what the whole one reads.
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(
        vocabulary_size=whole.get_vocab_size(), num_layers=1, num_heads=2, hidden_dim=16,
        intermediate_dim=16, max_sequence_length=64, dropout=0.0, name="encoder",
    )  # fmt: skip
    cut = keep_rows(encoder, kept)
    outputs = []
    for model, tokens in ((encoder, whole), (cut, smaller)):
        ids = tf.constant([tokens.encode(texts[0]).ids])
        batch = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
        outputs.append(model(batch)["sequence_output"].numpy())
    np.testing.assert_array_equal(*outputs)
    assert cut.token_embedding.input_dim == len(kept)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (
            "zenby is family - friendly , near the river .",
            "zenby is family-friendly, near the river.",
        ),
        ("it ' s £ 20 - 25 ( cheap ) !", "it's £20-25 (cheap)!"),
        ("一 种 基 于 bert 的 方 法 ， 3 . 5 倍", "一种基于bert的方法，3.5倍"),
        ("two words", "two words"),
    ],
)
def test_gaps_of_word_piece_are_closed(tokens, text):
    assert close_gaps(tokens) == text


def make_examples(count: int = 37, seed: int = 0) -> list[Example]:
    random = np.random.default_rng(seed)
    texts = make_texts(seed, 400)
    return [
        Example(f"r{n}", str(random.choice(texts)), tuple(random.choice(texts, 1 + n % 3)), n + 1)
        for n in range(count)
    ]


@pytest.fixture(scope="module", params=[1, 4])
def generator(request, tokenizer):
    settings = make_settings(max_length=24, target_length=12, buckets=request.param, seed=1)
    tokens = find_target_tokens(tokenizer, encoder_of(tokenizer.get_vocab_size()))
    return PairGenerator(make_examples(), tokens, tokenizer, INPUTS, settings, batch_size=8)


def test_every_pair_is_an_example_once(generator, tokenizer):
    examples, seen = make_examples(), []
    for batch in generator.batches(0):
        for row in np.flatnonzero(batch["loss_weight"]):
            source = batch["token_ids"][row][batch["padding_mask"][row] > 0]
            target = batch["target_labels"][row]
            seen.append((source.tolist(), target[target != NO_TOKEN].tolist()))
            # What stands before a label is what the label follows.
            length = (target != NO_TOKEN).sum()
            assert batch["target_ids"][row, 0] == generator.begin_token
            assert batch["target_ids"][row, 1:length].tolist() == target[: length - 1].tolist()
    wanted = []
    for example in examples:
        source = tokenizer.encode(example.source).ids
        if len(source) > 24:
            source = [*source[:23], source[-1]]
        for target in example.targets:
            ids = tokenizer.encode(target, add_special_tokens=False).ids
            wanted.append((source, [*ids, source[-1]][:12]))
    assert sorted(seen) == sorted(wanted) and len(wanted) == sum(len(e.targets) for e in examples)


def test_shapes_are_static(generator):
    batches = list(generator.batches(0)) + list(generator.batches(1))
    shapes = {(b["token_ids"].shape, b["target_ids"].shape) for b in batches}
    assert len(shapes) <= (1 if len(generator.boundaries) == 1 else 4)
    dataset = generator.to_dataset()
    for batch, _ in zip(dataset, range(12), strict=False):
        assert batch["target_ids"].shape == batch["target_labels"].shape
    source = dataset.element_spec["token_ids"].shape
    target = dataset.element_spec["target_ids"].shape
    for size, padded in zip((source[1], target[1]), generator.padded_lengths.T, strict=True):
        assert size == (padded[0] if len({*padded.tolist()}) == 1 else None)
    assert (source[1] is None) == (len(generator.boundaries) > 1)


def test_weighted_losses_are_the_mean_over_tokens(generator):
    """Labels are scored against logits drawn anew: the mean over all tokens of a batch."""
    random = np.random.default_rng(0)
    vocabulary, layer = 700, TokenLoss(0.0)
    for batch in generator.batches(0):
        labels = batch["target_labels"]
        logits = random.normal(size=(*labels.shape, vocabulary)).astype(np.float32)
        losses = layer(logits, labels).numpy()
        logs = special.log_softmax(logits.astype(float), axis=-1)
        real = batch["loss_weight"] > 0
        own = [
            -logs[row, place, labels[row, place]]
            for row, place in np.argwhere(labels != NO_TOKEN)
            if real[row]
        ]
        assert np.sum(losses * batch["loss_weight"]) == pytest.approx(np.mean(own), rel=1e-5)


def test_label_smoothing_is_the_cross_entropy_with_a_mixed_target():
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 4, 10)).astype(np.float32)
    labels = random.integers(-1, 10, (3, 4)).astype(np.int32)
    target = 0.8 * np.eye(10)[np.maximum(labels, 0)] + 0.2 / 10
    losses = -(target * special.log_softmax(logits.astype(float), axis=-1)).sum(-1) * (labels >= 0)
    np.testing.assert_allclose(TokenLoss(0.2)(logits, labels), losses.sum(1), rtol=1e-5)


def test_random_numbers_belong_to_the_record(tokenizer):
    settings = make_settings(max_length=24, target_length=12, seed=3)
    examples = make_examples()

    def draws(of, **changes):
        generator = SourceGenerator(
            of, tokenizer, INPUTS, settings.model_copy(update=changes), batch_size=4
        )
        batch = generator.make_batch(np.arange(len(of)), 24)
        return dict(zip((e.id for e in of), batch["draws"].tolist(), strict=True))

    all_of_them = draws(examples)
    assert draws(examples[5:9]) == {e.id: all_of_them[e.id] for e in examples[5:9]}
    assert draws(examples, seed=4) != all_of_them
    assert len({tuple(row) for row in all_of_them.values()}) == len(examples)


def test_prefix_mask():
    """Two source tokens and a padding, then three of the target: who sees whom, written out."""
    segments, padding = np.array([[0, 0, 0, 1, 1, 1]]), np.array([[1, 1, 0, 1, 1, 1]])
    expected = [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [1, 1, 0, 1, 1, 1],
    ]
    assert prefix_mask(segments, padding)[0].numpy().astype(int).tolist() == expected
    assert find_positions(padding)[0].numpy().tolist() == [0, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["unilm", "encoder_decoder"])
def test_no_token_sees_its_future_and_padding_changes_nothing(kind):
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(
        vocabulary_size=20, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=16,
        max_sequence_length=40, dropout=0.1, name="encoder",
    )  # fmt: skip
    models = build_models(encoder, make_settings(model=kind, target_length=6))
    training, model = models.training, models.inference
    random = np.random.default_rng(0)
    model.set_weights([w + random.normal(0, 0.3, w.shape) for w in model.get_weights()])

    def logits(source, target, padding=0):
        ids = tf.constant([[*source, *[7] * padding]])
        mask = tf.constant([[1] * len(source) + [0] * padding])
        batch = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": mask}
        batch["target_ids"] = tf.constant([target])
        return model(batch, training=False)["logits"].numpy()[0]

    first = logits([2, 9, 3], [2, 5, 6, 7])
    np.testing.assert_allclose(first[:2], logits([2, 9, 3], [2, 5, 9, 8])[:2], atol=1e-5)
    np.testing.assert_allclose(first, logits([2, 9, 3], [2, 5, 6, 7], padding=4), atol=1e-5)
    assert np.abs(first - logits([2, 8, 3], [2, 5, 6, 7])).max() > 1e-2
    assert np.abs(first[1:] - logits([2, 9, 3], [2, 4, 6, 7])[1:]).max() > 1e-2
    clone = keras.models.clone_model(training)
    assert [w.shape for w in clone.get_weights()] == [w.shape for w in training.get_weights()]
    assert len(clone.trainable_variables) == len(training.trainable_variables)


def test_the_head_of_unilm_is_the_embedding():
    encoder = BertEncoder(
        vocabulary_size=500, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=16,
        max_sequence_length=40, name="encoder",
    )  # fmt: skip
    model = build_models(encoder, make_settings()).inference
    tables = [w for w in model.weights if 500 in w.shape]
    assert len(tables) == 1 and tables[0] is encoder.token_embedding.embeddings
    assert {id(w) for w in encoder.weights} <= {id(w) for w in model.weights}


def test_tokenizer_file_is_complete(tokenizer, tmp_path):

    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(tokenizer.to_str())), encoding="utf-8")
    again = Tokenizer.from_file(str(path))
    assert [again.encode(t).ids for t in ODD] == [tokenizer.encode(t).ids for t in ODD]
    assert decode_texts(again, list(encode(again, ODD))) == ODD


def reach_of(targets, **changes):
    """Return the findings about targets of 4 to 12 words, and the other settings."""
    examples = [Example(number, "fog", (own,), number) for number, own in enumerate(targets, 1)]
    tokenizer = train_text_tokenizer([" ".join(targets)] * 5, 200)
    settings = with_tables(Settings)(**{"target_length": 60, **changes})
    reach = measure_reach(examples, tokenizer, [], settings)
    return {found.what: found for found in find_reach_faults("dev", reach, settings)}


LONG = [f"fog and rain in the north of {place}" for place in ("Oslo", "Bergen", "Turku")]


def test_targets_that_are_never_written_are_named(tmp_path):
    assert reach_of(LONG) == {}
    found = reach_of(LONG, generation={"stop": [" of Ber"]})
    what = "targets that hold a stop string, which ends a text: 1 of 3"
    assert found[what].where.startswith("dev, line 2, 'fog and rain in the north of Bergen'")
    (tmp_path / "allowed.txt").write_text(f"{LONG[0]}\n{LONG[2].upper()}\n", encoding="utf-8")
    table = {"allowed": str(tmp_path / "allowed.txt")}
    assert [*reach_of(LONG, generation=table)] == [
        "targets that are not in generation.allowed: 2 of 3"
    ]
    found = reach_of(LONG, generation=table, lowercase_scores=True)
    assert [*found] == ["targets that are not in generation.allowed: 1 of 3"]


def test_targets_for_which_no_score_is_possible_are_named():
    found = reach_of(["yes", "no"], metric="bleu")
    assert [(one.level, one.what) for one in found.values()] == [
        ("error", "a perfect model would score bleu 0")
    ]
    assert 'set metric = "rouge_l"' in next(iter(found.values())).fix
    assert reach_of(["yes", "no"], metric="exact_match") == {}
    cut = reach_of(LONG, metric="exact_match", target_length=4)
    assert cut["a perfect model would score exact_match 0"].level == "error"
    assert [what[:28] for what in cut][0] == "targets that lose their end:"


def test_targets_without_blanks_ask_for_another_tokenizer(tmp_path):
    texts = ["新品手机今天发售 15", "一加手机发布", "price of 米"]
    examples = [Example(n, "a", (text,), n) for n, text in enumerate(texts)]
    settings = SimpleNamespace(metric="bleu", bleu_tokenizer="13a")
    [found] = find_unspaced_targets("train", examples[:2] * 2, settings)
    assert 'set bleu_tokenizer = "zh"' in found.fix
    assert find_unspaced_targets("train", examples[2:], settings) == []
    chinese = {"metric": "bleu", "bleu_tokenizer": "zh"}
    assert find_unspaced_targets("train", examples[:2], SimpleNamespace(**chinese)) == []
    # A submission with one text a line is scored too.
    path = tmp_path / "out.txt"
    path.write_text("x\u2028y\n\nz\n", "utf-8")
    assert read_lines(path, examples) == {0: "x\u2028y", 1: "", 2: "z"}
    with pytest.raises(InputError, match="has 3 lines, and the gold 2 records"):
        read_lines(path, examples[:2])


def test_a_perfect_model_writes_no_further_than_an_end_within_a_target():
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(["fog and rain"] * 3, vocab_size=60, show_progress=False)
    examples = [Example(1, "fog", ("fog [SEP] rain",), 1), Example(2, "rain", ("rain",), 2)]
    settings = with_tables(Settings)(target_length=20)
    end = tokenizer.token_to_id("[SEP]")
    reach = measure_reach(examples, tokenizer._tokenizer, [end], settings)
    assert reach.oracle["exact_match"] == 0.5
    assert reach.oracle["rouge_l"] == pytest.approx((2 / 4 + 1) / 2)  # "fog" of fog, SEP and rain
    reach = measure_reach(examples, tokenizer._tokenizer, [], settings)
    assert reach.oracle["rouge_l"] == pytest.approx((4 / 5 + 1) / 2)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_perfect_model_writes_as_many_tokens_as_targets_may_have(missing):
    """The longest target needs no end: the search stops there."""
    tokenizer = train_text_tokenizer(LONG * 5, 200)
    examples = [Example(1, "fog", (LONG[1],), 1)]
    length = len(tokenizer.encode(LONG[1], add_special_tokens=False).ids) - missing
    settings = with_tables(Settings)(target_length=length)
    assert measure_reach(examples, tokenizer, [], settings).oracle["exact_match"] == 1 - missing


def test_the_best_score_may_be_the_0_of_a_negated_error(monkeypatch):
    settings = Settings.model_construct(metric="neg_ter")
    monkeypatch.setitem(checks.BEST, "neg_ter", 0.0)
    assert find_low_oracle("dev", {"neg_ter": 0.0}, settings) == []
    [finding] = find_low_oracle("dev", {"neg_ter": -0.4}, settings)
    assert finding.level == "warning" and "would score neg_ter -0.4" in finding.what


@pytest.mark.parametrize("targets", [None, [], [""], "absent"])
def test_files_to_predict_may_have_blanks(targets, tmp_path):
    path = tmp_path / "a.jsonl"
    record = {"id": 1, "source": " "} | ({} if targets == "absent" else {"targets": targets})
    path.write_text(json.dumps(record) + "\n", "utf-8")
    [example] = read_examples(path, False)
    assert (example.source, example.targets) == (" ", ())
    with pytest.raises(InputError, match="line 1"):
        read_examples(path)
    path.write_text('{"id": 1, "source": "a", "targets": ["x", ""]}\n', "utf-8")
    with pytest.raises(InputError, match="holds an empty text"):
        read_examples(path, False)


def test_a_tokenizer_that_pads_frames_a_text_with_two_tokens(tmp_path, monkeypatch):
    """As the files of sentence-transformers do, which pad and cut to 128 tokens."""
    words = train_text_tokenizer(make_texts(0), 600)
    words.enable_padding(length=128)
    words.enable_truncation(128)
    settings = make_settings(
        encoder="x", keep_tokens="all", model="encoder_decoder", max_length=128
    )
    monkeypatch.setattr(loading, "load_tokenizer", lambda *_: words)
    monkeypatch.setattr(loading, "load_backbone", lambda *_: encoder_of(words.get_vocab_size()))
    tokenizer, encoder = loading.load_tokenizer_and_encoder(settings, [])
    tokens = find_target_tokens(tokenizer, encoder)
    assert (tokens.begin, tokens.end) == (words.token_to_id("[CLS]"), words.token_to_id("[SEP]"))
    [source] = encode_sources(tokenizer, ["ab " * 20], settings)
    assert len(source) > 20 and source[-1] == tokens.end


def test_a_space_before_an_allowed_text_stays(tmp_path):
    """It is part of the first token of a writer whose prompt does not end with a line break."""
    (tmp_path / "lines.txt").write_text(" positive\n negative \r\npositive\n\n")
    assert read_allowed(str(tmp_path / "lines.txt")) == [" positive", " negative", "positive"]
