"""Encoding, losses, classical model and submissions of text classification."""

import csv
import dataclasses
import functools
import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from conftest import use_template

PROJECT = use_template("text_classification")

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import log_loss  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.utils.class_weight import compute_class_weight  # noqa: E402
from tokenizers import Encoding, Tokenizer, models, pre_tokenizers  # noqa: E402

import floor  # noqa: E402
from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from core.encoders.encoder import load_encoder  # noqa: E402
from extras.competition.pooling import AttentionPooling  # noqa: E402
from extras.doctor.model_checks import build_as_trained  # noqa: E402
from extras.doctor.record_checks import find_other_words  # noqa: E402
from extras.folds.folds import assign_folds  # noqa: E402
from extras.optimizers.settings import Table as Optimizers  # noqa: E402
from extras.regularization.settings import Table  # noqa: E402
from extras.retrieval import pair_batches  # noqa: E402, F401
from extras.tpu.compile_checks import find_lowering_faults  # noqa: E402
from floor import predict_floor  # noqa: E402
from inspection import checks  # noqa: E402
from inspection.folds import fold_keys  # noqa: E402
from library import class_weights, encoding  # noqa: E402
from library.encoding import encode_examples  # noqa: E402
from library.predictions import prediction_records  # noqa: E402
from submission import write_submission  # noqa: E402
from task import model  # noqa: E402
from task.data import ExampleGenerator, token_arrays  # noqa: E402
from task.decode import make_candidates  # noqa: E402
from task.evaluation import evaluate  # noqa: E402
from task.records import Example, Labels, collect_labels, collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

WORDS = "one two three four five six seven eight nine ten".split()
SMALL = {"tiny_layers": 1, "tiny_width": 16, "max_length": 12, "buckets": 2, "dropout": 0.0}


def pair(identity, a, b=None, labels=("x",), group=None, several=False):
    return Example(str(identity), a, b, tuple(labels), several, group, 1)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([" ".join(WORDS)] * 4, 200)


def words_of(tokenizer, encoding):
    return tokenizer.decode(encoding.ids, skip_special_tokens=False).split()


def test_a_pair_has_the_frame_of_the_tokenizer(tokenizer):
    (encoding,) = encode_examples(tokenizer, [pair(0, "one two", "three")], 12)
    assert words_of(tokenizer, encoding) == ["[CLS]", "one", "two", "[SEP]", "three", "[SEP]"]
    assert encoding.type_ids == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("a", "b", "kept_a", "kept_b"),
    [(10, 2, 7, 2), (2, 10, 2, 7), (10, 9, 5, 4), (9, 10, 4, 5), (4, 5, 4, 5)],
)
def test_the_longer_text_is_cut_first_and_at_its_end(tokenizer, a, b, kept_a, kept_b):
    example = pair(0, " ".join(WORDS[:a]), " ".join(WORDS[:b]))
    (encoding,) = encode_examples(tokenizer, [example], 12)
    numbers = [number for number in encoding.sequence_ids if number is not None]
    assert abs(numbers.count(0) - kept_a) <= 1 and abs(numbers.count(1) - kept_b) <= 1
    assert len(numbers) == min(a + b, 9)
    assert words_of(tokenizer, encoding)[1 : 1 + numbers.count(0)] == WORDS[: numbers.count(0)]
    assert bool(encoding.overflowing) == (a + b > 9)
    _, cut = checks.measure_tokens([example], tokenizer, 12)
    assert len(cut) == (a + b > 9)


def test_encoding_leaves_the_tokenizer_as_it_was(tokenizer):
    before = tokenizer.to_str()
    encode_examples(tokenizer, [pair(0, " ".join(WORDS))], 8)
    assert tokenizer.to_str() == before


def test_pairs_without_a_separator_are_refused():
    bare = Tokenizer(models.WordLevel({"one": 0, "[UNK]": 1}, unk_token="[UNK]"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    assert encode_examples(bare, [pair(0, "one")], 8)
    with pytest.raises(InputError, match="puts nothing between two texts"):
        encode_examples(bare, [pair(0, "one", "one")], 8)


def test_text_numbers_say_which_text_a_token_is_of(tokenizer):
    examples = [pair(0, "one two", "three", "x"), pair(1, "four", "five six", "y")]
    labels = collect_labels(examples)
    settings = Settings.model_construct(**SMALL)
    inputs = ["token_ids", "padding_mask", "text_numbers"]
    generator = ExampleGenerator(examples, tokenizer, labels, inputs, settings, batch_size=2)
    batch = generator.make_batch(np.array([0, 1]), 7)
    assert batch["text_numbers"].tolist() == [[0, 1, 1, 0, 2, 0, 0], [0, 1, 0, 2, 2, 0, 0]]
    assert batch["targets"].tolist() == [[1, 0], [0, 1]]


def test_encodings_are_not_held_until_the_last_is_made(tokenizer, monkeypatch):
    """An `Encoding` takes 15 KB: what is kept of it is taken batch by batch."""
    monkeypatch.setattr(encoding, "TEXTS_AT_ONCE", 2)
    order = []

    class Watched:
        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def encode_batch_fast(self, texts):
            order.append("encode")
            return tokenizer.encode_batch_fast(texts)

    examples = [pair(n, "one two") for n in range(4)]
    kept = encode_examples(Watched(), examples, 12, lambda own: order.append("keep") or own.ids)
    assert order == ["encode", "keep", "keep"] * 2 and len({*map(tuple, kept)}) == 1
    generator = ExampleGenerator(
        examples,
        tokenizer,
        Labels(("x",), False, None, (4,), 4, False),
        ["token_ids"],
        Settings.model_construct(**SMALL),
        2,
    )
    assert not any(isinstance(own, Encoding) for row in generator.arrays for own in row)


def test_texts_that_are_read_apart_are_padded_each_by_its_own_lengths(tokenizer):
    texts = [("one", "two three four five"), ("one two", "three four"), ("six", "seven")]
    examples = [pair(n, *both, labels=("xy"[n % 2],)) for n, both in enumerate(texts)]
    labels, settings = collect_labels(examples), with_tables(Settings).model_construct(**SMALL)
    inputs = ["text_a_token_ids", "text_a_padding_mask", "text_b_token_ids", "token_ids"]
    generator = ExampleGenerator.of(examples, tokenizer, labels, inputs, settings, 3)
    batch = generator.make_batch(np.arange(3), int(generator.boundaries[-1]))
    assert {name: batch[name].shape[1] for name in inputs} == dict(
        zip(inputs, (4, 4, 6, 8), strict=True)
    )
    apart = encode_examples(tokenizer, [pair(0, text[0]) for text in texts], 12)
    assert [row[row > 0].tolist() for row in batch["text_a_token_ids"]] == [e.ids for e in apart]
    assert batch["text_a_padding_mask"].sum(-1).tolist() == [3, 4, 3]
    specs = generator.signature(3)
    assert all(specs[name].shape.as_list() == [3, None] for name in inputs)
    generator.batch_size = 2
    generator.fit_to_batches(True)  # as in prediction
    shapes = [[tuple(b[name].shape) for name in inputs] for b in generator.to_prediction_dataset()]
    assert shapes == [[(2, 4), (2, 4), (2, 4), (2, 7)], [(1, 3), (1, 3), (1, 6), (1, 8)]]


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_softmax_loss_is_the_cross_entropy(smoothing):
    random = np.random.default_rng(1)
    logits, gold = 5 * random.normal(size=(6, 3)).astype(np.float32), np.array([0, 1, 2, 0, 0, 1])
    targets, weights = np.eye(3, dtype=np.float32)[gold], [0.5, 2.0, 1.0]
    found = model.SoftmaxLoss(weights, smoothing)(logits, targets).numpy()
    soft = (1 - smoothing) * targets + smoothing / 3
    expected = -(soft * np.log(softmax(logits))).sum(-1) * np.array(weights)[gold]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert model.SoftmaxLoss()(np.array([[100.0, -100.0]]), np.array([[0.0, 1.0]])) == 200


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sigmoid_loss_is_the_sum_of_binary_cross_entropies(smoothing):
    random = np.random.default_rng(2)
    logits = 5 * random.normal(size=(6, 3)).astype(np.float32)
    targets = (random.random((6, 3)) < 0.5).astype(np.float32)
    weights = np.array([[0.5, 2], [1, 1], [3, 4]], np.float32)
    found = model.SigmoidLoss(weights.tolist(), smoothing)(logits, targets).numpy()
    p, soft = 1 / (1 + np.exp(-logits)), targets * (1 - smoothing) + smoothing / 2
    each = -(soft * np.log(p) + (1 - soft) * np.log(1 - p))
    expected = (each * np.where(targets == 1, weights[:, 1], weights[:, 0])).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert model.SigmoidLoss()(np.array([[100.0, -100.0]]), np.array([[0.0, 1.0]])) == 200


def test_balanced_weights_are_scikit_learns():
    gold = list("aaaabbc")
    labels = collect_labels([pair(n, "t", labels=[y]) for n, y in enumerate(gold)])
    expected = compute_class_weight("balanced", classes=np.array(list("abc")), y=gold)
    np.testing.assert_allclose(class_weights.balanced_weights(labels), expected)
    # Several labels: each is a question with two answers.
    rows = [pair(n, "t", labels=row, several=True) for n, row in enumerate(["a", "ab", "", "a"])]
    found = class_weights.balanced_weights(collect_labels(rows))
    for name, weights in zip("ab", found, strict=True):
        has = [name in row.labels for row in rows]
        expected = compute_class_weight("balanced", classes=np.array([False, True]), y=has)
        np.testing.assert_allclose(weights, expected)


@pytest.mark.parametrize("several", [False, True])
def test_weights_of_ones_own_are_the_sample_weights_of_scikit_learn(several):
    """The mean over the training file is scikit-learn's, and parts of a batch sum to the whole."""
    random = np.random.default_rng(4)
    gold = random.choice(list("aaabbc"), 30)
    rows = [sorted({*random.choice(list("abc"), random.integers(0, 3))}) for _ in gold]
    rows = rows if several else [[label] for label in gold]
    examples = [pair(n, "t", labels=row, several=several) for n, row in enumerate(rows)]
    settings = with_tables(Settings)(class_weights={"b": 2.5, "c": 40})
    labels = collect_targets(examples, settings)
    head = model.make_head(labels, settings)
    answer, loss = head.prediction, head.loss
    targets = labels.targets(examples)
    logits = 3 * random.normal(size=targets.shape).astype(np.float32)
    losses = loss(logits, targets).numpy()
    weights, truth = np.where(targets > 0, [1.0, 2.5, 40.0], float(several)), targets.ravel()
    if several:  # a question for each label
        found = answer(logits).numpy().ravel().astype(float)
        expected = 3 * log_loss(truth, found, sample_weight=weights.ravel())
    else:
        found = answer(logits).numpy().astype(float)
        found /= found.sum(axis=1, keepdims=True)
        expected = log_loss(gold, found, sample_weight=weights.sum(axis=1))
    np.testing.assert_allclose(losses.mean(), expected, rtol=1e-5)
    plain = model.make_head(labels, with_tables(Settings)()).loss(logits, targets).numpy()
    assert abs(plain.mean() - expected) > 0.01
    halves = [loss(logits[part], targets[part]).numpy() for part in (slice(7), slice(7, None))]
    np.testing.assert_array_equal(np.concatenate(halves), losses)


def test_class_weights_come_from_a_table_or_a_flag():
    given = [{"b": 2, "a.b": 0.5}, '{"a.b": 0.5, "b": 2}']
    kept = {with_tables(Settings)(class_weights=one).class_weights for one in given}
    assert kept == {'{"a.b": 0.5, "b": 2}'}, "one value, which runs are compared by"
    assert class_weights.weights_by_label(kept.pop()) == {"a.b": 0.5, "b": 2}
    assert (
        class_weights.weights_by_label(
            with_tables(Settings)(class_weights="balanced").class_weights
        )
        == {}
    )


@pytest.mark.parametrize("number", [1, 2])
def test_masked_mean_sees_its_own_tokens_only(number):
    hidden = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    mask = np.array([[0, 1, 2, 2], [1, 1, 1, 1]])
    found = model.MaskedMean(number)(hidden, mask).numpy()
    for row, states, numbers in zip(found, hidden, mask, strict=True):
        chosen = states[numbers == number]
        expected = chosen.mean(0) if len(chosen) else np.zeros(3)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


def test_attention_pooling_is_a_weighted_mean_of_the_tokens_of_a_text():
    random = np.random.default_rng(1)
    hidden = random.normal(size=(2, 5, 4)).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    layer = AttentionPooling()
    plain = layer(hidden, mask)
    means = [hidden[0, :3].mean(axis=0), hidden[1].mean(axis=0)]
    np.testing.assert_allclose(plain, means, atol=1e-6)  # before the first step
    kernel, bias, query = (random.normal(size=shape) for shape in ((4, 4), (4,), (4,)))
    layer.set_weights([kernel, bias, query])
    scores = np.tanh(hidden @ kernel + bias) @ query
    for row, length in enumerate((3, 5)):
        shares = np.exp(scores[row, :length]) / np.exp(scores[row, :length]).sum()
        expected = shares @ hidden[row, :length]
        np.testing.assert_allclose(layer(hidden, mask)[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["auto", "cls", "mean", "compare", "last", "attention"])
@pytest.mark.parametrize("several", [False, True])
def test_models_clone_and_give_probabilities(tokenizer, pooling, several):
    examples = [
        pair(0, "one two", "three", "x", several=several),
        pair(1, "four five", "six", "y", several=several),
    ]
    labels = collect_labels(examples)
    settings = Settings.model_construct(**SMALL, pooling=pooling, class_weights="balanced")
    models = model.build_models(load_encoder(settings, tokenizer), labels, settings)
    training, inference = models.training, models.inference
    inputs = [tensor.name for tensor in inference.inputs]
    assert ("text_numbers" in inputs) == (pooling in ("auto", "compare"))
    generator = ExampleGenerator(examples, tokenizer, labels, inputs, settings, batch_size=2)
    generator.check_keys(training)
    batch = generator.make_batch(np.array([0, 1]), 7)
    longer = generator.make_batch(np.array([0, 1]), 9)

    def predict(arrays):
        return inference({name: arrays[name] for name in inputs})["probabilities"].numpy()

    probabilities = predict(batch)
    # Padding changes nothing.
    np.testing.assert_allclose(predict(longer), probabilities, atol=1e-6)
    sums = probabilities.sum(-1)
    assert several or np.allclose(sums, 1, atol=1e-6)
    loss = training(batch)["label_loss"].numpy()
    assert loss.shape == (2,)
    clone = keras.models.clone_model(training)
    clone.set_weights(training.get_weights())
    np.testing.assert_allclose(clone(batch)["label_loss"], loss, rtol=1e-6)


def test_dropout_samples_share_all_but_their_masks(tokenizer):
    examples = [pair(0, "one two", "three", "x"), pair(1, "four five", "six", "y")]
    labels = collect_labels(examples)
    settings = Settings.model_construct(**{**SMALL, "dropout": 0.3}, dropout_samples=3)
    keras.utils.set_random_seed(1)
    models = model.build_models(load_encoder(settings, tokenizer), labels, settings)
    training, inference = models.training, models.inference
    inputs = [tensor.name for tensor in inference.inputs]
    generator = ExampleGenerator(examples, tokenizer, labels, inputs, settings, batch_size=2)
    batch = generator.make_batch(np.array([0, 1]), 7)
    score = training.get_layer("logits")
    samples = [node.output_tensors[0] for node in score._inbound_nodes]
    watched = keras.Model(training.input, [samples, training.output["label_loss"]])
    logits, loss = watched(batch, training=True)
    found = [-np.log(softmax(part.numpy()))[[0, 1], [0, 1]] for part in logits]
    assert len(found) == 3 and np.abs(found[0] - found[1]).max() > 1e-4
    np.testing.assert_allclose(loss, np.mean(found, axis=0), rtol=1e-5)
    assert list(training.output) == ["label_loss"]
    # Without dropout there is one answer, that of the inference model.
    probabilities = inference({name: batch[name] for name in inputs})["probabilities"].numpy()
    expected = -np.log(probabilities[[0, 1], [0, 1]])
    np.testing.assert_allclose(training(batch)["label_loss"], expected, rtol=1e-5)
    [compared] = models.compared
    assert inference.get_layer("probabilities").input is compared.logits
    assert compared.kind == "softmax"


@pytest.mark.further
@pytest.mark.trains
def test_checks_compile_what_a_training_does(tokenizer):
    """Dropout samples and all regularisations together: XLA lowers the whole step."""
    labels = collect_labels([pair(0, "one two", "three", "x"), pair(1, "four", "six", "y")])
    table = Table(adversary="fgm", r_drop=1.0, gradient_penalty=1.0, virtual_adversary=1.0)
    settings = with_tables(Settings).model_construct(
        **{**SMALL, "dropout": 0.3}, dropout_samples=2, regularization=table
    )
    build = functools.partial(checks.build, tokenizer, labels, settings)
    inputs = [tensor.name for tensor in build().inference.inputs]
    examples = [pair(0, "one two", "three", "x")]
    generator = ExampleGenerator(examples, tokenizer, labels, inputs, settings, batch_size=2)
    trained = build_as_trained(build, settings, generator)
    regularization = trained.batch_gradients.regularization
    assert regularization.adversary and regularization.virtual_adversary
    assert find_lowering_faults(trained, next(generator.batches(0))) == []
    frozen = settings.model_copy(update={"optimizers": Optimizers(frozen_layers=1)})
    with pytest.raises(InputError, match="frozen_layers = 0"):
        build_as_trained(build, frozen, generator)


def write(path, records):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")
    return path


def test_records_of_every_kind_are_read(tmp_path):
    records = [
        {"id": 1, "text_a": "猫😀e\u0301", "text_b": "", "label": 1, "group": 7},
        {"id": "2", "text_a": "", "text_b": "c", "label": "b", "group": "g"},
    ]
    first, second = read_examples(write(tmp_path / "a.jsonl", records))
    assert (first.id, first.labels, first.group, first.texts) == (
        1,
        ("1",),
        "7",
        ("猫😀e\u0301", ""),
    )
    assert (second.id, second.texts) == ("2", ("", "c"))
    several = [
        {"id": "1", "text_a": "a", "labels": ["b", 2, "b"]},
        {"id": "2", "text_a": "a", "labels": []},
    ]
    first, second = read_examples(write(tmp_path / "b.jsonl", several))
    assert first.labels == ("b", "2") and second.labels == () and second.several
    plain = read_examples(write(tmp_path / "c.jsonl", [{"id": "1", "text_a": "a"}]), False)
    assert (plain[0].text_b, plain[0].texts) == (None, ("a",))
    assert not plain[0].labelled and plain[0].labels == () and first.labelled and second.labelled


def test_positive_label_of_a_ranking():
    rows = [pair(n, "t", labels=[y], group="q") for n, y in enumerate(["no", "no", "yes"])]
    assert collect_labels(rows).positive == "yes"
    assert collect_labels(rows, "no").positive == "no"
    with pytest.raises(InputError, match="no training example has it"):
        collect_labels(rows, "maybe")


@pytest.mark.parametrize(
    ("pairs", "rows", "positive", "counts"),
    [
        (True, "11111", "1", {"0": 0, "1": 5}),
        (True, "11111", "", None),
        (True, "0011111", "1", {"0": 2, "1": 5}),
        (True, "000", "0", None),
        (False, "11111", "1", None),
    ],
)
def test_only_pairs_with_a_named_positive_label_may_have_no_other(pairs, rows, positive, counts):
    """extras/retrieval then has a second label for the negatives of a batch."""
    examples = [pair(n, "a", "b" if pairs else None, [y]) for n, y in enumerate(rows)]
    settings = with_tables(Settings)(positive_label=positive)
    if counts is None:
        with pytest.raises(InputError, match="there is nothing to learn") as error:
            collect_targets(examples, settings)
        # Pairs of one label may belong together: positive_label says so, and nothing else could.
        assert ("set positive_label = '1' if these" in str(error.value)) == (pairs and not positive)
    else:
        labels = collect_targets(examples, settings)
        assert dict(zip(labels.names, labels.counts, strict=True)) == counts


def test_folds_share_no_text_and_no_group():
    random = np.random.default_rng(1)
    rows = [
        pair(n, f"a{random.integers(40)}", f"b{random.integers(400)}", group=f"g{n % 50}")
        for n in range(60)
    ] + [pair(100 + n, "", labels=["x"]) for n in range(3)]
    keys = [*fold_keys(rows)]
    folds = assign_folds(keys, 3, seed=1)
    for texts in (
        lambda r: {r.text_a} - {""},
        lambda r: {r.text_b} - {None},
        lambda r: {r.group} - {None},
    ):
        held = [
            set().union(*(texts(r) for r, f in zip(rows, folds, strict=True) if f == k))
            for k in range(3)
        ]
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])
    # Empty texts don't tie records together.
    assert len({texts for texts, _ in keys[-3:]}) == 3


def test_a_column_with_few_texts_ties_no_records(capsys):
    """A rule, or a code next to a phrase, would tie all records; their other texts still do."""
    random = np.random.default_rng(2)
    rows = [pair(n, f"rule {n % 5}", f"text {random.integers(250)}") for n in range(500)]
    keys = [*fold_keys(rows)]
    assert "text 1 of the records, such as 'rule 0', keeps none of them" in capsys.readouterr().out
    folds = assign_folds(keys, 5, seed=1)
    assert max(np.bincount(folds)) <= 110
    of_text = {}
    for row, fold in zip(rows, folds, strict=True):
        assert of_text.setdefault(row.text_b, fold) == fold
    # Codes and anchors tie each other: the anchors, of which there are more, still tie.
    codes = [(f"anchor {random.integers(100)}", f"code {random.integers(9)}") for _ in range(500)]
    rows = [pair(n, *own) for n, own in enumerate(codes)]
    folds = assign_folds([*fold_keys(rows)], 5, seed=1)
    assert max(np.bincount(folds)) <= 120
    assert len({(row.text_a, fold) for row, fold in zip(rows, folds, strict=True)}) == len(
        {row.text_a for row in rows}
    )
    # One text ties however often it is there, and so do both together.
    same = [pair(n, "the same" if n % 2 else f"text {n}") for n in range(100)]
    folds = assign_folds([*fold_keys(same)], 2, seed=1)
    assert len({*folds[1::2]}) == 1
    both = [pair(n, f"rule {n % 2}", f"sort {n // 2 % 2}") for n in range(100)]
    folds = assign_folds([*fold_keys(both)], 2, seed=1)
    assert len({*zip((n % 4 for n in range(100)), folds, strict=True)}) == 4


def candidates_of(examples, rows):
    return make_candidates(examples, np.array(rows), collect_labels(examples))


def test_submissions(tmp_path):
    examples = [pair("1", "t", labels=["a"]), pair("2", "t", labels=["b\tc"])]
    labels = collect_labels(examples)
    records = prediction_records(
        examples, candidates_of(examples, [[0.7, 0.3], [0.4, 0.6]]), labels, 0
    )
    write_submission(tmp_path / "a.tsv", records)
    rows = list(csv.reader((tmp_path / "a.tsv").open(encoding="utf-8"), delimiter="\t"))
    assert rows == [["id", "label"], ["1", "a"], ["2", "b\tc"]]
    write_submission(tmp_path / "a.csv", records, ["g", "g"])
    rows = list(csv.reader((tmp_path / "a.csv").open(encoding="utf-8")))
    assert rows == [["id", "label", "score"], ["1", "a", "0.7"], ["2", "b\tc", "0.6"]]

    several = [pair(row, "t", labels=row, several=True) for row in ("ab", "b")]
    labels = collect_labels(several)
    records = prediction_records(
        several, candidates_of(several, [[0.6, 0.7], [0.1, 0.2]]), labels, 0.5
    )
    assert [record["labels"] for record in records] == [["a", "b"], []]
    for groups in ((), ["g", "g"]):  # of several labels none has the score of a ranking
        write_submission(tmp_path / "b.csv", records, groups)
        assert (tmp_path / "b.csv").read_text("utf-8") == "id,label\nab,a|b\nb,\n"


def test_equal_probabilities_survive_the_files(tmp_path):
    """Scores computed from the predictions file are those of the model: nothing is rounded away."""
    values = np.array([1e-9, 2e-9, 0.123456789, 1 - 1e-7, 0.5], np.float32)
    examples = [pair(n, "t", labels=[str(n % 2)], group="q") for n in range(5)]
    candidates = candidates_of(examples, np.column_stack([1 - values, values]))
    order = np.argsort([candidates[example.id][1] for example in examples])
    np.testing.assert_array_equal(order, np.argsort(values))
    labels = collect_labels(examples)
    evaluation = evaluate(examples, candidates, labels, PROJECT / "train.py")
    found = [json.loads(json.dumps(record))["score"] for record in evaluation.predictions]
    np.testing.assert_array_equal(found, [candidates[example.id][1] for example in examples])


def test_the_classical_model_learns_words_characters_and_overlap():
    texts = [("good food", "a"), ("bad food", "b"), ("很好吃", "a"), ("不好吃", "b")]
    rows = [pair(f"{n}-{t}", f"{t} {n}", labels=[y]) for n in range(20) for t, y in texts]
    labels = collect_labels(rows)
    (found,) = predict_floor(labels, rows, rows)
    assert evaluate(rows, found, labels, PROJECT / "train.py").scores["accuracy"] == 1
    # The label of a pair is whether both texts hold the same number: no word of either tells.
    random = np.random.default_rng(1)
    pairs = []
    for n in range(400):
        a, b = random.integers(0, 1000, 2)
        same = n % 2
        pairs.append(pair(n, f"flat {a} upstairs", f"key of {a if same else b}", [str(same)]))
    labels = collect_labels(pairs[:300])
    (found,) = predict_floor(labels, pairs[:300], pairs[300:])
    scores = evaluate(pairs[300:], found, labels, PROJECT / "train.py").scores
    assert scores["accuracy"] > 0.95


def soft(name, text, **shares):
    """Return an example with a probability for each label; `several` labels may be likely."""
    likely = tuple(label for label, share in shares.items() if share >= 0.5)
    kinds = {"several": True, "probabilities": tuple(shares.items())}
    return dataclasses.replace(pair(name, text, labels=likely), **kinds)


def test_what_is_likely_is_gold_where_probabilities_are_learned():
    """The classical model learns it, and thresholds are tuned on it."""
    rows = [
        soft(n, f"{'good' if n % 2 else 'bad'} {n}", up=0.9 if n % 2 else 0.1) for n in range(20)
    ]
    rows += [soft("none", "neither", up=0.4, down=0.6)]
    labels = collect_labels(rows)
    (found,) = predict_floor(labels, rows, rows)
    assert found["1"][labels.names.index("up")] > found["0"][labels.names.index("up")]
    scored = [soft(n, "x", up=share) for n, share in enumerate((1.0, 0.8, 0.1, 0.1))]
    labels = Labels(("up",), True, None, (2,), 4, False)
    said = {str(n): np.array([score]) for n, score in enumerate((0.9, 0.6, 0.2, 0.1))}
    scores = evaluate(scored, said, labels, PROJECT / "train.py").scores
    assert 0.2 < scores["threshold"] <= 0.6 and scores["micro_f1"] == 1


def test_the_classical_model_of_one_label_gives_its_share():
    """As in a fold of a rare label, and of pairs that learn from the negatives of a batch."""
    examples = [pair(n, "one", "two", labels=("1",)) for n in range(3)]
    labels = Labels(("0", "1"), False, "1", (0, 3), 3, True)
    [found] = predict_floor(labels, examples, examples[:1])
    assert found["0"].tolist() == [0, 1]


def test_the_classical_model_gives_several_labels():
    rows = [
        pair(n, t, labels=t.split(), several=True)
        for n, t in enumerate(["a b", "a", "b", "c a"] * 10)
    ]
    rows += [pair("last", "d", labels=["d", "e"], several=True)]
    labels = collect_labels(rows)
    # A label that no training record of a fold has is improbable, not a crash.
    (found,) = predict_floor(labels, rows[:-1], rows)
    assert all(row[labels.names.index("e")] == 0 for row in found.values())
    scores = evaluate(rows[:-1], found, labels, PROJECT / "train.py").scores
    assert scores["micro_f1"] > 0.9


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_classical_model_is_one_against_the_rest(count):
    """Its probabilities are those of scikit-learn's own class."""
    random = np.random.default_rng(count)
    rows = [
        pair(n, " ".join(random.choice(WORDS, 5)), labels=(f"label {n % count}",))
        for n in range(10 * count)
    ]
    labels, features = collect_labels(rows), floor.Features(rows)
    (found,) = predict_floor(labels, rows, rows[:9])
    single = LogisticRegression(C=1.0, solver="liblinear", max_iter=1000)
    model = OneVsRestClassifier(single)
    model.fit(features(rows, fit=True), labels.targets(rows).argmax(axis=1))
    wanted = make_candidates(rows[:9], model.predict_proba(features(rows[:9])), labels)
    assert {name: row.tolist() for name, row in found.items()} == {
        name: row.tolist() for name, row in wanted.items()
    }


def test_a_classical_model_that_takes_minutes_is_left_out(monkeypatch, capsys):
    """Of very many labels, of several of them, and of numbers; train_floor.py trains it."""
    settings, learned = Settings.model_construct(test_file="no.jsonl"), []
    monkeypatch.setattr(floor, "predict_floor", lambda labels, *_: learned.append(labels) or [{}])
    monkeypatch.setattr(floor, "predict_held_out", lambda *_: {})
    monkeypatch.setattr(floor, "evaluate", lambda *_: SimpleNamespace(scores={"accuracy": 0.5}))
    monkeypatch.setattr(floor, "choose_metric", lambda *_: "accuracy")
    for count, several, folds in ((3000, False, 1), (3000, True, 1), (700, False, 5)):
        rows = [pair(n, "word " * 14, labels=(str(n),), several=several) for n in range(count)]
        fold_of = np.arange(count) % folds if folds > 1 else None
        assert floor.score_floor(settings, rows, rows, fold_of) == {} and not learned
        said = capsys.readouterr().out
        times = ", 5 times" if folds > 1 else ""
        sentence = f"floor: left out, because {count} models, one for each label, would learn from "
        assert f"{sentence}{70 * count} characters{times}, which takes minutes: python" in said
        assert floor.score_floor(settings, rows, rows, fold_of, always=True)
        learned.clear()
        capsys.readouterr()
    few = [pair(n, "word " * 14, labels=(str(n % 2),)) for n in range(3000)]
    assert floor.score_floor(settings, few, few) and "left out" not in capsys.readouterr().out


def test_a_floor_of_other_data_is_kept_beside_the_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(floor, "FOLDER", tmp_path / "floor")
    monkeypatch.setattr(floor, "record_hashes", lambda settings: dict(settings.model_extra))
    monkeypatch.setattr(floor, "provenance", lambda settings: {})

    def keep(train: str, dev: str, score: float, **changes) -> dict:
        usual = {"positive_label": "", "folds": {"count": 0}, "seed": 1}
        values = {"train_hash": train, "dev_hash": dev, **usual, **changes}
        settings = SimpleNamespace(model_dump=lambda: values, model_extra={})
        evaluation = SimpleNamespace(predictions=[], scores={"f1": score, "data_hash": dev})
        floor.keep_floor(settings, {"dev": evaluation}, "f1")
        return values

    # The data, the training file alone, and how both are read.
    runs = [
        keep("a", "d", 0.1),
        keep("b", "e", 0.2),
        keep("c", "d", 0.3),
        keep("a", "d", 0.4, positive_label="x"),
        keep("a", "d", 0.5, folds={"count": 5}, seed=1),
        keep("a", "d", 0.6, folds={"count": 5}, seed=2),
    ]
    told = capsys.readouterr().out
    assert told.count("runs/floor has the floor of other data: this one is in runs/floor/of_") == 5
    found = [floor.find_floor(run, run["dev_hash"], "f1") for run in runs]
    assert found == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert floor.find_floor({"train_hash": "z", "dev_hash": "d"}, "d", "f1") is None
    keep("b", "e", 0.7)
    assert floor.find_floor(runs[1], "e", "f1") == 0.7
    assert floor.find_floor(runs[0], "d", "f1") == found[0]


def test_checks_find_what_is_wrong():
    train = [
        pair("1", "Ada  sleeps", "yes", ["x"]),
        pair("2", "ada sleeps", "YES", ["y"]),
        pair("3", "bob", "no", ["y"]),
    ]
    dev = [pair("4", "bob", "no", ["z"]), pair("5", "ada sleeps", "never", ["x"])]
    findings = {
        f.what: f for f in checks.find_data_faults({"train.jsonl": train, "dev.jsonl": dev})
    }
    (contradiction,) = [f for what, f in findings.items() if what.startswith("the same text with")]
    assert contradiction.what.endswith("2 texts") and "line 1: x" in contradiction.where
    leak = findings["texts of dev.jsonl that are in train.jsonl too: 1 of 2"]
    first = findings["first texts of dev.jsonl that are in train.jsonl too: 2 of 2"]
    assert (leak.level, first.level) == ("error", "warning")
    assert not any(what.startswith("repeated texts") for what in findings)
    assert any(what.startswith("labels never seen in train.jsonl: 1") for what in findings)


def test_a_few_sentences_that_come_again_are_no_error():
    train = [pair(n, f"train {n}") for n in range(200)]
    for count, level in ((1, "warning"), (2, "warning"), (3, "error")):
        dev = [pair(300 + n, f"train {n}" if n < count else f"dev {n}") for n in range(100)]
        found = checks.find_data_faults({"train.jsonl": train, "dev.jsonl": dev})
        [leak] = [one for one in found if one.what.startswith("texts of dev.jsonl that are in")]
        assert leak.level == level and leak.what.endswith(f"too: {count} of 100")


SPANS = [
    {"entities": [{"type": "x", "span": [0, 2], "text": "叶老桂"}]},
    {
        "triples": [
            {"subject": [0, 3], "subject_text": "叶老桂", "object": [4, 5], "object_text": "厂"}
        ]
    },
    {"events": [{"type": "x", "trigger": [3, 4], "trigger_text": "去", "arguments": []}]},
    {"events": [{"type": "x", "trigger": None, "arguments": [{"span": [4, 5], "text": "厂"}]}]},
]


@pytest.mark.parametrize("number", range(4))
def test_spans_that_read_otherwise_than_their_words_are_named(number, tmp_path):
    """Ends that are those of the last character look sound where each character is a token."""
    right = {
        "id": 1,
        "text": "叶老桂去工厂",
        "entities": [{"type": "x", "span": [0, 3], "text": "叶老桂"}],
    }
    path, example = tmp_path / "a.jsonl", SimpleNamespace(entities=(), triples=(), events=())
    records = [right, {"id": 2, "text": "叶老桂去工厂", **SPANS[number]}]
    path.write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    found = [*find_other_words({str(path): [example]})]
    wanted = [
        "line 2: [0, 2] is '叶老', not '叶老桂'",
        "line 2: [4, 5] is '工', not '厂'",
        None,
        "line 2: [4, 5] is '工', not '厂'",
    ][number]
    assert len(found) == (wanted is not None)
    # Fields that the task does not read may hold anything.
    path.write_text('{"id": 1, "text": "a", "entities": null, "events": [7]}\n', "utf-8")
    assert [*find_other_words({str(path): [SimpleNamespace(entities=())]})] == []
    assert all(one.level == "error" and wanted in one.where for one in found)


def test_rare_labels_ask_for_class_weights():
    rows = [pair(n, f"t{n}", labels=["often" if n else "rare"]) for n in range(50)]
    files, labels = {"train.jsonl": rows}, collect_labels(rows)
    settings = Settings.model_construct(train_file="train.jsonl")
    (note,) = checks.find_label_faults(files, labels, settings)
    assert (note.level, "class_weights" in note.fix) == ("note", True)
    settings = Settings.model_construct(train_file="train.jsonl", class_weights="balanced")
    assert checks.find_label_faults(files, labels, settings) == []
    rows[3] = pair("e", " ", labels=["often"])
    found = {finding.what for finding in checks.find_data_faults(files)}
    assert "records with an empty text: 1 of 50" in found


def test_a_positive_label_beside_two_others_may_be_a_slip():
    rows = [pair(n, f"t{n}", labels=["01"[n % 2]]) for n in range(50)]
    files = {"train.jsonl": rows}
    settings = Settings.model_construct(train_file="train.jsonl", positive_label="1")
    assert checks.find_label_faults(files, collect_labels(rows, "1"), settings) == []
    rows[3] = pair("e", "stray", labels=["2"])
    found = checks.find_label_faults(files, collect_labels(rows, "1"), settings)
    (slip,) = [finding for finding in found if finding.level == "warning"]
    assert slip.what == "positive_label = '1', and 2 labels beside it: '0', '2'"
    settings = Settings.model_construct(train_file="train.jsonl")
    found = checks.find_label_faults(files, collect_labels(rows), settings)
    assert not any(finding.level == "warning" for finding in found)


def test_a_cut_text_is_reported_where_many_are(tokenizer):
    rows = [pair(n, " ".join(WORDS if n else WORDS[:2])) for n in range(3)]
    tokens, cut = checks.measure_tokens(rows, tokenizer, 8)
    assert tokens == [4, 8, 8] and len(cut) == 2
    (finding,) = checks.find_cut_texts("a.jsonl", rows, cut, 8)
    assert "2 of 3" in finding.what
    assert checks.find_cut_texts("a.jsonl", rows * 100, cut, 8) == []


def test_an_input_that_no_array_is_made_for_is_named():
    encoding = SimpleNamespace(ids=[1, 2], type_ids=[0, 0], sequence_ids=[None, 0])
    with pytest.raises(InputError, match="input 'repeat', and token_arrays makes no such array"):
        token_arrays(encoding, ["token_ids", "repeat"])
